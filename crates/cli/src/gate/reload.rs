//! A gate that runs follows its configuration: when its files change, and when it is told to with a signal.
//!
//! It decides nothing: it reads, compares with what cannot change while a gate runs, and hands on what came of it.
//!
//! # Invariants
//! - What is taken was the same in two looks, with a read between them: no half of a file, and no half of two.
//! - Files are read with the checks of a start, and must be whose they were.
//! - All of a configuration comes into force, or nothing of it.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use engine::{Cause, Engine, OnBadReload, PolicySource, ReplaceError};
use policy::{EgressSettings, Settings};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Trouble;
use super::open::{Gate, keep_apart};
use super::telling::Live;
use crate::config::{self, Loaded, Look, Meaning, Source};
use crate::talk;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// For how long files may change before that is a refusal, and how often what was refused is tried again: what was wrong may
/// stand in a file that is not known to be one.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often, and how soon again, files are read that change while they are.
const MOST_READS: usize = 5;
const READ_AGAIN: Duration = Duration::from_millis(50);

/// A configuration as it was read, and the files that it was read from.
pub(super) struct Read {
    pub(super) loaded: Loaded,
    /// What is decided beside it, or why that cannot be.
    shadow: Option<Result<Loaded, String>>,
    files: Files,
    /// Those of the shadow. ATTACK(planted-rules): whatever becomes of them, they hold off nothing.
    shadow_files: Files,
}

/// Files that are followed, and how they were seen.
#[derive(Clone, Default, PartialEq)]
struct Files {
    paths: Vec<PathBuf>,
    look: Look,
}

impl Files {
    fn at(paths: Vec<PathBuf>) -> Files {
        let look = Look::at(&paths);
        Files { paths, look }
    }

    /// These, and more as they are now.
    fn and(mut self, more: &[PathBuf]) -> Files {
        self.paths.extend(more.iter().cloned());
        self.look = self.look.and(Look::at(more));
        self
    }

    fn again(&self) -> Files {
        Files::at(self.paths.clone())
    }

    async fn now(&self) -> Option<Files> {
        let files = self.clone();
        tokio::task::spawn_blocking(move || files.again()).await.ok()
    }
}

/// Files that a gate follows.
struct Followed {
    in_force: Files,
    /// What is looked at: those, or the ones of what is to come into force, as they were seen last.
    seen: Files,
    /// Since when they have not been the same in two looks.
    moving_since: Option<Instant>,
}

impl Followed {
    fn from(files: Files) -> Followed {
        Followed { seen: files.clone(), in_force: files, moving_since: None }
    }

    /// Looks. Whether they are as they were the last time.
    async fn is_still(&mut self) -> bool {
        let Some(now) = self.seen.now().await else { return false };
        let is_still = now == self.seen;
        self.moving_since = if is_still { None } else { self.moving_since.or_else(|| Some(Instant::now())) };
        self.seen = now;
        is_still
    }

    fn has_changed(&self) -> bool {
        self.seen != self.in_force
    }

    fn moves_for_too_long(&self) -> bool {
        self.moving_since.is_some_and(|since| since.elapsed() >= PATIENCE)
    }
}

impl Read {
    /// What the shadow means, if there is one and it is not read from where an agent writes.
    pub(super) fn shadow_apart(
        &self,
        home: &Path,
        here: &Path,
        store: &str,
    ) -> Option<Result<Settings, String>> {
        let shadow = match self.shadow.as_ref()? {
            Ok(shadow) => shadow,
            Err(why) => return Some(Err(why.clone())),
        };
        let apart = keep_apart(home, Some(here), &shadow.meaning, store, None);
        Some(apart.map(|()| shadow.meaning.settings_in(here).0).map_err(|trouble| told(trouble.error)))
    }

    /// Reads a configuration and all that it names, as it was at one moment.
    pub(super) fn now(named: Option<&Path>) -> Result<Read, Unread> {
        for _ in 0..MOST_READS {
            let (_, paths) = read(named)?;
            let before = Files::at(paths);
            let (loaded, paths) = read(named)?;
            let files = Files::at(paths);
            if files == before {
                return Ok(Read::with_shadow(loaded, files));
            }
            std::thread::sleep(READ_AGAIN);
        }
        Err(Unread::Changing)
    }

    /// The same at once, for a gate that follows nothing.
    pub(super) fn once(named: Option<&Path>) -> Result<Read, Unread> {
        let (loaded, paths) = read(named)?;
        Ok(Read::with_shadow(loaded, Files::at(paths)))
    }

    fn with_shadow(loaded: Loaded, files: Files) -> Read {
        let running = &loaded.meaning.while_running;
        // As it was before it was read: what has changed since is found by the next look.
        let own = Files::at(running.shadow.iter().cloned().collect());
        let shadow = running.shadow.as_deref().map(config::load_shadow);
        let mut shadow_files = own;
        if let Some(Ok(shadow)) = &shadow {
            shadow_files = shadow_files.and(&shadow.meaning.while_running.files);
        }
        Read { loaded, shadow, files, shadow_files }
    }

    /// The files of the shadow that are followed.
    ///
    /// ATTACK(planted-rules): what an agent may write is not among them, or it would drive the gate.
    fn followed_shadow(&self, is_apart: bool) -> Files {
        match is_apart {
            true => self.shadow_files.clone(),
            false => Files::at(self.loaded.meaning.while_running.shadow.iter().cloned().collect()),
        }
    }

    /// For the record.
    pub(super) fn source(&self) -> PolicySource {
        source_of(&self.loaded.source, &self.files.look)
    }
}

/// A configuration, and the files that it was read from.
fn read(named: Option<&Path>) -> Result<(Loaded, Vec<PathBuf>), Unread> {
    let loaded = config::load(named).map_err(|error| Unread::Bad(told(error.into())))?;
    let own = config::place(named).into_iter();
    let paths = own.chain(loaded.meaning.while_running.files.iter().cloned()).collect();
    Ok((loaded, paths))
}

fn source_of(source: &Source, look: &Look) -> PolicySource {
    match source {
        Source::File(path) => PolicySource { name: config::name_of(path), files: look.digest() },
        Source::BuiltIn => PolicySource { name: "built in".to_owned(), files: None },
    }
}

/// Why there is nothing to be taken.
pub(super) enum Unread {
    /// It is being written.
    Changing,
    /// It cannot be used, for this.
    Bad(String),
}

fn told(error: anyhow::Error) -> String {
    format!("{error:#}")
}

/// What can be done about a configuration that does not come into force.
#[derive(Clone, Copy)]
enum Remedy {
    /// Something is wrong with it.
    Mend,
    /// It is good, and not for a gate that runs.
    Restart,
}

impl Remedy {
    fn hint(self) -> &'static str {
        match self {
            Remedy::Mend => {
                "what is good again is taken by itself; `toolgate config check` says what is wrong, and `policy.on_bad_reload` what becomes of calls meanwhile"
            }
            Remedy::Restart => {
                "restart the gate, or take the change back, which is noticed by itself; `policy.on_bad_reload` says what becomes of calls meanwhile"
            }
        }
    }
}

/// What a gate was started with, and what it follows.
pub(crate) struct Running {
    gate: Gate,
    home: PathBuf,
    here: PathBuf,
    store: String,
    /// What was in force when the parts were made that last as long as the gate.
    began: Meaning,
    on_bad_reload: OnBadReload,
    source: Source,
    files: Followed,
    shadow_files: Followed,
    refused: Option<Refused>,
    /// Since when nothing could be read that was the same before and after.
    changing_since: Option<Instant>,
}

/// What was refused last, so that it is not said again every second.
struct Refused {
    files: Files,
    why: String,
    at: Instant,
}

impl Running {
    pub(super) fn began(gate: &Gate, home: &Path, here: &Path, store: &str, read: &Read) -> Running {
        Running {
            gate: gate.clone(),
            home: home.to_owned(),
            here: here.to_owned(),
            store: store.to_owned(),
            began: read.loaded.meaning.clone(),
            on_bad_reload: read.loaded.meaning.while_running.on_bad_reload,
            source: read.loaded.source.clone(),
            files: Followed::from(read.files.clone()),
            shadow_files: Followed::from(
                read.followed_shadow(matches!(read.shadow_apart(home, here, store), Some(Ok(_)))),
            ),
            refused: None,
            changing_since: None,
        }
    }

    /// Follows the configuration until the gate ends.
    pub(crate) fn follow(
        mut self,
        engine: Engine,
        live: Option<Arc<Live>>,
        ending: CancellationToken,
    ) -> Result<tokio::task::JoinHandle<()>, Trouble> {
        let mut hung_up = HangUps::listen()?;
        Ok(tokio::spawn(async move {
            loop {
                let cause = tokio::select! {
                    () = ending.cancelled() => return,
                    () = tokio::time::sleep(LOOK_EVERY) => Cause::Reload,
                    said = hung_up.next() => match said {
                        HangUp::TakeAnew => Cause::Signal,
                        HangUp::TerminalGone => return ending.cancel(),
                    },
                };
                if cause == Cause::Signal || self.is_due(&engine).await {
                    self.take(&engine, cause, live.as_deref()).await;
                }
            }
        }))
    }

    /// Whether there is something to be taken that was not refused already.
    async fn is_due(&mut self, engine: &Engine) -> bool {
        let is_still = self.files.is_still().await;
        let is_shadow_still = self.shadow_files.is_still().await;
        if self.files.moves_for_too_long() {
            self.refuse(engine, "its files do not stand still", Cause::Reload).await;
        }
        if let Some(Refused { files, at, .. }) = &self.refused {
            return is_still && (*files != self.files.seen || at.elapsed() >= PATIENCE);
        }
        // ATTACK(half-written): what is about the shadow alone is no reason to take a policy that is being written.
        is_still && (self.files.has_changed() || (is_shadow_still && self.shadow_files.has_changed()))
    }

    /// Takes the configuration anew: all of it, or nothing.
    async fn take(&mut self, engine: &Engine, cause: Cause, live: Option<&Live>) {
        let named = self.gate.config.clone();
        let read = tokio::task::spawn_blocking(move || Read::now(named.as_deref())).await;
        let read = match read {
            Ok(Ok(read)) => read,
            Ok(Err(Unread::Changing)) => {
                let since = *self.changing_since.get_or_insert_with(Instant::now);
                // It is being written: the next look finds it. Whoever asked is told.
                if cause == Cause::Reload && since.elapsed() < PATIENCE {
                    return;
                }
                return self.refuse(engine, "its files change while they are read", cause).await;
            }
            Ok(Err(Unread::Bad(why))) => return self.refuse(engine, &why, cause).await,
            Err(_) => return self.refuse(engine, "it could not be read", cause).await,
        };
        self.changing_since = None;
        if let Err((remedy, why)) = self.check(&read) {
            return self.refuse_until(remedy, engine, &why, cause).await;
        }
        // It names other files than were looked at, or has changed since: the next looks are at these.
        if cause == Cause::Reload && read.files != self.files.seen {
            self.files.seen = read.files;
            return;
        }
        let (settings, warnings) = read.loaded.meaning.settings_in(&self.here);
        read.loaded.warnings.iter().chain(&warnings).for_each(|warning| talk::warning(warning));
        let shadow = match read.shadow_apart(&self.home, &self.here, &self.store) {
            Some(Ok(settings)) => Some(settings),
            Some(Err(why)) => {
                tell_of_shadow(engine, &why, &read.source(), cause).await;
                None
            }
            None => None,
        };
        let shadow_files = read.followed_shadow(shadow.is_some());
        match engine.replace_policy(settings, shadow, &read.source(), cause).await {
            Ok(policy) => talk::say(&format!("policy {policy} is in force ({cause})")),
            Err(error @ ReplaceError::Settings(_)) => {
                return self.refuse(engine, &told(error.into()), cause).await;
            }
            // Without a store no call begins either; the next look tries again.
            Err(error @ ReplaceError::Store(_)) => return talk::warning(&told(error.into())),
        }
        self.on_bad_reload = read.loaded.meaning.while_running.on_bad_reload;
        if let Some(live) = live {
            live.refresh(&read.loaded.meaning);
        }
        (self.files, self.shadow_files) = (Followed::from(read.files), Followed::from(shadow_files));
        (self.source, self.refused) = (read.loaded.source, None);
    }

    /// Whether a configuration can come into force while the gate runs.
    fn check(&self, read: &Read) -> Result<(), (Remedy, String)> {
        self.check_files(read).map_err(|why| (Remedy::Mend, why))?;
        let mut fixed = changed_for_good(&self.began, &read.loaded.meaning);
        let store = self.gate.store_url(&self.home, &read.loaded.meaning);
        let store = store.map_err(|trouble| (Remedy::Mend, told(trouble.error)))?;
        fixed.extend((store != self.store).then_some("store"));
        if fixed.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = fixed.iter().map(|key| format!("`{key}`")).collect();
        let why = format!("the gate has to be started anew for changes to {}", keys.join(", "));
        Err((Remedy::Restart, why))
    }

    /// Whether it is read from where it may be read from.
    fn check_files(&self, read: &Read) -> Result<(), String> {
        let Loaded { source, meaning, .. } = &read.loaded;
        if let (Source::File(path), Source::BuiltIn) = (&self.source, source) {
            return Err(format!(
                "`{}` is gone, and nothing falls back to the defaults",
                config::name_of(path)
            ));
        }
        if let Some(why) = read.files.look.changed_hands(&self.files.in_force.look) {
            return Err(why);
        }
        let file = match source {
            Source::File(path) => Some(path.as_path()),
            Source::BuiltIn => None,
        };
        keep_apart(&self.home, Some(&self.here), meaning, &self.store, file)
            .map_err(|trouble| told(trouble.error))
    }

    async fn refuse(&mut self, engine: &Engine, why: &str, cause: Cause) {
        self.refuse_until(Remedy::Mend, engine, why, cause).await;
    }

    async fn refuse_until(&mut self, remedy: Remedy, engine: &Engine, why: &str, cause: Cause) {
        let is_new = cause == Cause::Signal || self.refused.as_ref().is_none_or(|before| before.why != why);
        // As they were looked at before they were read: what has been mended since is something else.
        let files = self.files.seen.clone();
        self.files.moving_since = None;
        self.refused = Some(Refused { files: files.clone(), why: why.to_owned(), at: Instant::now() });
        if !is_new {
            return;
        }
        let calls = match self.on_bad_reload {
            OnBadReload::Refuse => "calls are refused until it can",
            OnBadReload::Keep => "the policy before stays in force",
        };
        let error = anyhow!("{why}")
            .context(format!("the configuration has changed and cannot come into force; {calls}"));
        talk::error(&error, Some(remedy.hint()));
        let source = source_of(&self.source, &files.look);
        if let Err(error) = engine.reject_policy(why, &source, cause, self.on_bad_reload).await {
            talk::warning(&format!("that is not on record: {:#}", anyhow::Error::from(error)));
        }
    }
}

/// A shadow that cannot be used is told of, and harms nothing.
pub(super) async fn tell_of_shadow(engine: &Engine, why: &str, source: &PolicySource, cause: Cause) {
    talk::warning(&format!("nothing is decided beside the policy: {why}"));
    if let Err(error) = engine.reject_shadow(why, source, cause).await {
        talk::warning(&format!("that is not on record: {:#}", anyhow::Error::from(error)));
    }
}

/// The keys that lasting parts of the gate were made from, and that say something else now.
fn changed_for_good(began: &Meaning, now: &Meaning) -> Vec<&'static str> {
    // Whole, so that what is added to a meaning cannot be forgotten here.
    let Meaning {
        settings,
        workspaces,
        presets: _,
        file_directories: _,
        shell_directories: _,
        backends,
        timeouts,
        lifecycle,
        custom_actions: _,
        store: _,
        listen,
        tls,
        access_tokens,
        kept: _,
        while_running: _,
        // Taken anew each time.
        telling: _,
        examples: _,
        without_examples: _,
    } = began;
    let Settings { files, egress, upstreams, .. } = settings;
    let EgressSettings {
        allow: _,
        by_category: _,
        by_tool: _,
        block: _,
        ports: _,
        private,
        nameservers,
        extra_roots,
        credentials,
        server_credentials,
        vault,
        known_hosts,
        known_hosts_file,
        limits,
        http,
    } = egress;
    let (new, out) = (&now.settings, &now.settings.egress);
    let compared = [
        ("agents.*.workspace", *workspaces == now.workspaces),
        ("sandboxing", *backends == now.backends && *lifecycle == now.lifecycle),
        ("timeout_seconds, timeout_ms", *timeouts == now.timeouts),
        ("listen", *listen == now.listen),
        ("tls", *tls == now.tls),
        ("mcp.oauth", *access_tokens == now.access_tokens),
        ("tools.filesystem", *files == new.files),
        ("tools.http", *http == out.http),
        ("mcp.servers", *upstreams == new.upstreams && *server_credentials == out.server_credentials),
        ("egress.private", *private == out.private),
        ("egress.nameservers", *nameservers == out.nameservers),
        ("egress.extra_roots", *extra_roots == out.extra_roots),
        ("egress.credentials", *credentials == out.credentials),
        ("egress.vault", *vault == out.vault),
        ("egress.known_hosts", *known_hosts == out.known_hosts && *known_hosts_file == out.known_hosts_file),
        ("egress.limits", *limits == out.limits),
    ];
    compared.into_iter().filter(|(_, is_same)| !is_same).map(|(key, _)| key).collect()
}

/// What a hang-up means.
enum HangUp {
    TakeAnew,
    /// The terminal that the gate was started in is no more: it ends, as programs in a terminal do.
    TerminalGone,
}

struct HangUps {
    signal: Signal,
    had_terminal: bool,
}

impl HangUps {
    fn listen() -> Result<HangUps, Trouble> {
        let had_terminal = std::io::stdin().is_terminal();
        Ok(HangUps { signal: signal(SignalKind::hangup())?, had_terminal })
    }

    async fn next(&mut self) -> HangUp {
        if self.signal.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
        if self.had_terminal && !std::io::stdin().is_terminal() {
            HangUp::TerminalGone
        } else {
            HangUp::TakeAnew
        }
    }
}
