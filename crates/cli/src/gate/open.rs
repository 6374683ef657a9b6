//! Opens the gate that a command talks to.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use contract::AgentName;
use egress::Egress;
use engine::{Cause, Clock, Engine, OpenError, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sandbox::Proofs;
use server::AccessTokens;
use tools::Surroundings;
use tools::mcp::{Reading, Refresh, Upstream};

use super::reload::{Read, Running, Unread, tell_of_shadow};
use super::{Trouble, register};
use crate::config::{self, Meaning, Records, Source, Telling, Tls, way_through};
use crate::{talk, way_out};

/// How far the clock may be behind what other gates have written before it is worth a word.
const MOST_BEHIND: Duration = Duration::from_secs(60);

/// Which gate: its configuration and its store.
#[derive(Args, Clone, Default)]
pub(crate) struct Gate {
    /// The configuration; else TOOLGATE_CONFIG, or toolgate.yaml in TOOLGATE_HOME
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,

    /// The store, as sqlite:PATH or postgres://USER@HOST/DATABASE; else TOOLGATE_STORE, or toolgate.db in TOOLGATE_HOME
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) store: Option<String>,

    /// Print data as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Everything that opening found out.
pub(crate) struct Opened {
    pub(crate) engine: Engine,
    pub(crate) home: PathBuf,
    pub(crate) listen: std::net::SocketAddr,
    /// By which certificate the configuration has it known.
    pub(crate) tls: Option<Tls>,
    pub(crate) access_tokens: Option<Arc<AccessTokens>>,
    /// The gate's own way out, and who is told by it.
    pub(crate) egress: Egress,
    pub(crate) telling: Telling,
}

/// Where no agent works, for people who stand where none may.
const ASIDE: &str = "/usr";

impl Gate {
    /// Opens the gate for the current directory.
    pub(crate) async fn open(&self) -> Result<Opened, Trouble> {
        let read = Read::once(self.config.as_deref()).map_err(unread)?;
        Ok(self.open_here(read).await?.0)
    }

    /// The same for a gate that goes on running: with what it follows, and with an entry in the ledger.
    pub(crate) async fn open_to_stay(&self) -> Result<(Opened, Running), Trouble> {
        let read = Read::now(self.config.as_deref()).map_err(unread)?;
        let source = read.source();
        let (opened, running) = self.open_here(read).await?;
        opened.engine.tell_policy(&source).await?;
        Ok((opened, running))
    }

    async fn open_here(&self, read: Read) -> Result<(Opened, Running), Trouble> {
        let home = place_of_home()?;
        read.loaded.warnings.iter().for_each(|warning| talk::warning(warning));
        let meaning = read.loaded.meaning.clone();
        let config = file_of(&read.loaded.source);
        let store = self.store_url(&home, &meaning)?;
        let here = std::env::current_dir().context("there is no current directory")?;
        let here = here.canonicalize().context("cannot find the workspace")?;
        // Before it is made: of a home that is refused nothing is left. And again after it, when all its links are there.
        keep_apart(&home, Some(&here), &meaning, &store, config.as_deref())?;
        make_home(&home)?;
        keep_apart(&home, Some(&here), &meaning, &store, config.as_deref())?;
        let running = Running::began(self, &home, &here, &store, &read);
        let shadow = read.shadow_apart(&home, &here, &store);
        let opened = open_with(&home, &here, meaning, store).await?;
        match shadow {
            Some(Ok(settings)) => {
                opened.engine.set_shadow(Some(settings)).await?;
            }
            Some(Err(why)) => tell_of_shadow(&opened.engine, &why, &read.source(), Cause::Start).await,
            None => {}
        }
        Ok((opened, running))
    }

    /// The same for people who decide or look, wherever they are: nothing is run in the directory they stand in, so it may
    /// be one that no agent could have.
    pub(crate) async fn open_for_people(&self) -> Result<Opened, Trouble> {
        let home = home()?;
        let (meaning, config) = self.meaning()?;
        let store = self.store_url(&home, &meaning)?;
        let here = std::env::current_dir().and_then(|here| here.canonicalize()).ok();
        let here =
            here.filter(|here| keep_apart(&home, Some(here), &meaning, &store, config.as_deref()).is_ok());
        if here.is_none() {
            keep_apart(&home, None, &meaning, &store, config.as_deref())?;
        }
        open_with(&home, here.as_deref().unwrap_or(Path::new(ASIDE)), meaning, store).await
    }

    /// The same, for those who look at what has happened: a store that was made this moment has nothing to tell.
    pub(crate) async fn open_existing(&self) -> Result<Opened, Trouble> {
        let url = self.store_url(&home()?, &self.meaning()?.0)?;
        if let Some(file) = url.strip_prefix("sqlite:").filter(|file| !Path::new(file).exists()) {
            let error = anyhow!("there is no store at `{file}`");
            return Err(Trouble::from(error)
                .with_hint("the first call makes one; --store and TOOLGATE_HOME name others"));
        }
        self.open_for_people().await
    }

    /// Where the configuration has the gate listen.
    pub(crate) fn listen(&self) -> Result<std::net::SocketAddr, Trouble> {
        Ok(self.meaning()?.0.listen)
    }

    /// What the configuration means, and the file that it is.
    fn meaning(&self) -> Result<(Meaning, Option<PathBuf>), Trouble> {
        let loaded = config::load(self.config.as_deref())?;
        loaded.warnings.iter().for_each(|warning| talk::warning(warning));
        let file = file_of(&loaded.source);
        Ok((loaded.meaning, file))
    }

    pub(super) fn store_url(&self, home: &Path, meaning: &Meaning) -> Result<String, Trouble> {
        if let Some(url) = self.store.clone().or_else(config::store_url) {
            return Ok(url);
        }
        match &meaning.store {
            None => Ok(format!("sqlite:{}", home.join("toolgate.db").display())),
            Some(Records::File(file)) => Ok(format!("sqlite:{}", file.display())),
            Some(Records::Server(url)) => Ok(url.clone()),
            // Never the state folder instead: what is recorded there nobody would look for.
            Some(Records::Variable(name)) => config::store_in(name).ok_or_else(|| {
                Trouble::from(anyhow!("`store` is `env:{name}`, and there is no such variable"))
                    .with_hint(format!("set {name} to the store's URL, or name one with --store"))
            }),
        }
    }
}

/// Opens a gate that nothing outside of its own home has a say in.
pub(crate) async fn open_apart(home: &Path, workspace: &Path) -> Result<Opened, Trouble> {
    let store = format!("sqlite:{}", home.join("toolgate.db").display());
    let (workspace, meaning) =
        (workspace.canonicalize().context("cannot find the workspace")?, Meaning::default());
    keep_apart(home, Some(&workspace), &meaning, &store, None)?;
    open_with(home, &workspace, meaning, store).await
}

async fn open_with(
    home: &Path,
    workspace: &Path,
    meaning: Meaning,
    store: String,
) -> Result<Opened, Trouble> {
    raise_open_files();
    let (settings, warnings) = meaning.settings_in(workspace);
    warnings.iter().for_each(|warning| talk::warning(warning));
    let clock = Clock::system();
    let binary = std::env::current_exe().context("cannot find our own program")?;
    let proofs = Proofs { folder: Some(home.to_owned()), prober: binary.clone() };
    let egress = way_out::open(&settings.egress)?;
    let access_tokens = meaning.access_tokens.map(|access| {
        let keys = way_out::Keys { egress: egress.clone(), bounds: way_out::bounds(&settings.egress) };
        Arc::new(AccessTokens::new(access, Arc::new(keys)))
    });
    let surroundings = Surroundings::new(binary, proofs, config::host(), clock.as_function())
        .guarding(&settings.files)
        .keeping(meaning.lifecycle)
        .reaching_out(egress.clone(), &settings.egress);
    let upstreams: Vec<Arc<Upstream>> =
        settings.upstreams.iter().filter_map(|(name, of)| Upstream::new(name, of.clone())).collect();
    let mut tools = tools::built_in(&settings).context("a built-in tool is not valid")?;
    if !upstreams.is_empty() {
        tools.push(Arc::new(Refresh::new(upstreams.clone()).context("a built-in tool is not valid")?));
        tools.extend(Reading::all(&upstreams).context("a built-in tool is not valid")?);
    }
    let options = Options {
        home: home.to_owned(),
        store,
        tools,
        settings,
        workspace: workspace.to_owned(),
        workspaces: meaning.workspaces,
        timeouts: meaning.timeouts.into_iter().map(|(of, ms)| (of, Duration::from_millis(ms))).collect(),
        surroundings,
        clock,
    };
    let engine = Engine::open(options).await.map_err(|error| {
        let hint = hint_for(&error);
        Trouble { hint: hint.map(str::to_owned), ..Trouble::from(error) }
    })?;
    register::load(&engine, home).await?;
    engine.set_upstreams(upstreams).await?;
    let behind = engine.clock_behind();
    if behind > MOST_BEHIND {
        let behind = behind.as_secs();
        talk::warning(&format!(
            "the clock is {behind} s behind what is on record; times go on from the record until it has caught up"
        ));
    }
    let (home, listen, telling) = (home.to_owned(), meaning.listen, meaning.telling);
    let tls = meaning.tls;
    Ok(Opened { engine, home, listen, tls, access_tokens, egress, telling })
}

/// Lets this process open as many files as it may: each connection of a sandbox takes several, and the usual 1024 are few.
/// Sandboxes have a limit of their own.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Without it there are fewer connections at once, and each that is too many is refused.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// What to do about a gate that does not open. What is wrong with a key says so itself.
fn hint_for(error: &OpenError) -> Option<&'static str> {
    use store::OpenError::{NoDatabase, NoRights, OtherKey, OtherWrappingKey, SignIn, Unreachable, Wrapping};
    match error {
        OpenError::Keys(_) | OpenError::Credential(_) => None,
        OpenError::Store(Wrapping(_) | OtherWrappingKey { .. }) => None,
        OpenError::Store(OtherKey { .. }) => Some(
            "put that store's `signing.key`, `signing.pub` and `wrapping.key` into TOOLGATE_HOME, or name another store with --store",
        ),
        OpenError::Store(SignIn { .. }) => Some(
            "the password is read from PGPASSWORD or ~/.pgpass, which nobody else may read; --store names another user",
        ),
        OpenError::Store(Unreachable { .. } | NoDatabase { .. } | NoRights { .. }) => {
            Some("docs/postgresql.md says how to make the role and the database; --store names another")
        }
        _ => Some("--store and TOOLGATE_HOME choose other places"),
    }
}

fn unread(unread: Unread) -> anyhow::Error {
    match unread {
        Unread::Changing => anyhow!("the configuration changes while it is read"),
        Unread::Bad(why) => anyhow!("{why}"),
    }
}

fn file_of(source: &Source) -> Option<PathBuf> {
    match source {
        Source::File(file) => Some(file.clone()),
        Source::BuiltIn => None,
    }
}

/// What decides and what remembers must not be where agents write: in the workspace here, if there is one, or another.
pub(super) fn keep_apart(
    home: &Path,
    here: Option<&Path>,
    meaning: &Meaning,
    store: &str,
    config: Option<&Path>,
) -> Result<(), Trouble> {
    let real = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_default();
    let store = store.strip_prefix("sqlite:").map(|file| ("the store", Path::new(file)));
    let config = config.map(|file| ("the configuration", file));
    // ATTACK(planted-hook): a program that an agent can write would decide about the agent.
    let hooks = meaning.settings.hooks.iter().map(|hook| ("the hook", hook.command.as_path()));
    // ATTACK(planted-rules): nor is a file of rules taken from where an agent writes; it would be, a second later.
    let running = &meaning.while_running;
    let rules = running.files.iter().map(|file| ("the file of rules", file.as_path()));
    let shadow = running.shadow.iter().map(|file| ("the shadow", file.as_path()));
    let ours = [Some(("Toolgate's home", home)), store, config].into_iter().flatten();
    let ours = ours.chain(hooks).chain(rules).chain(shadow);
    // Nor is there anything of ours where a server reads or writes.
    let granted =
        meaning.settings.upstreams.values().flat_map(|server| server.read.iter().chain(&server.write));
    let workspaces = meaning.workspaces.values().chain(granted).map(|path| real(path));
    let workspaces: Vec<PathBuf> = workspaces.chain(here.map(Path::to_owned)).collect();
    if workspaces.iter().any(|workspace| workspace.parent().is_none()) {
        let error = anyhow!("the workspace is `/`, and everything is in it: also what guards an agent");
        return Err(Trouble::from(error).with_hint(
            "start in a project's own directory, or give the agent a `workspace` in toolgate.yaml",
        ));
    }
    for (what, path) in ours {
        for workspace in &workspaces {
            let error = if real(path).starts_with(workspace) || workspace.starts_with(real(home)) {
                let (path, workspace) = (real(path), workspace.display());
                let path = path.display();
                anyhow!(
                    "{what} `{path}` and the workspace `{workspace}` are one within the other: an agent could change what guards it"
                )
            } else if let Some(place) = way_through(path, workspace) {
                let (path, place) = (path.display(), place.display());
                anyhow!(
                    "{what} `{path}` is found through `{place}`, in a workspace: an agent could lead it elsewhere"
                )
            } else {
                continue;
            };
            return Err(Trouble::from(error)
                .with_hint("work in a project's own directory, or set TOOLGATE_HOME, --store, --config, and where hooks, files of rules and a shadow are, to places outside of it"));
        }
    }
    Ok(())
}

/// Toolgate's home, made for its owner alone if it is not there.
pub(crate) fn home() -> Result<PathBuf, Trouble> {
    let home = place_of_home()?;
    make_home(&home)?;
    Ok(home)
}

fn place_of_home() -> Result<PathBuf, Trouble> {
    config::state_folder().ok_or_else(|| {
        Trouble::from(anyhow!("there is no place for Toolgate's own files"))
            .with_hint("set TOOLGATE_HOME to an absolute path")
    })
}

fn make_home(home: &Path) -> Result<(), Trouble> {
    let hint = "set TOOLGATE_HOME to a directory that is yours alone";
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(home);
    made.with_context(|| format!("cannot make `{}`", home.display()))
        .map_err(|error| Trouble::from(error).with_hint(hint))?;
    let status = fs::metadata(home).with_context(|| format!("cannot look at `{}`", home.display()))?;
    if status.uid() != rustix::process::geteuid().as_raw() || status.mode() & 0o022 != 0 {
        let error = anyhow!("`{}` belongs to, or can be written by, somebody else", home.display());
        return Err(Trouble::from(error).with_hint(hint));
    }
    Ok(())
}

/// Reads an agent's name from the command line.
pub(crate) fn agent(text: &str) -> Result<AgentName, Trouble> {
    Ok(AgentName::parse(text)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_way_that_leads_through_a_directory_is_seen_also_if_it_leads_out_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["work/sub", "ours"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("ours/policy.yaml"), "").unwrap();
        symlink(root.join("ours/policy.yaml"), root.join("work/policy.yaml")).unwrap();
        symlink("../ours", root.join("work/ours")).unwrap();
        symlink("work/ours", root.join("twice")).unwrap();
        symlink("itself", root.join("itself")).unwrap();
        let through = |path: &str| way_through(&root.join(path), &root.join("work"));
        for path in
            ["work/policy.yaml", "work/ours/policy.yaml", "twice/policy.yaml", "twice", "work/sub/../../ours"]
        {
            assert!(through(path).is_some(), "{path}");
        }
        assert!(through("itself").is_some(), "a way without an end is none");
        for path in ["ours/policy.yaml", "work/../ours/policy.yaml", "ours/new/toolgate.db", "worker"] {
            assert_eq!(through(path), None, "{path}");
        }
    }
}
