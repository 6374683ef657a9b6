//! What the canaries proved on this host, kept for this boot and this binary.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jail::{
    Access, ChangeReport, Content, Control, Controls, Directory, Draft, Feed, Level, Limit, Limits, Names,
    Network, Outcome, Plan, Program, Report, SealedFile, Streams, Strictness,
};
use serde::{Deserialize, Serialize};

use crate::backend::{Job, Refusal};
use crate::canary::{Attempt, Attempts, CANARY_ARGUMENT, Probe, SEALED, Targets, held_if};

const MIB: u64 = 1024 * 1024;

/// What is known of every control on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    controls: Vec<ProvedControl>,
}

/// What is known of one control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvedControl {
    /// Which one.
    pub control: Control,
    /// How far it stands: never more than the sandbox reports, and absent if a canary got through.
    pub level: Level,
    /// By which mechanism, or why not.
    pub how: String,
    /// What the canary found.
    pub canary: String,
}

impl Proof {
    /// Every control.
    pub fn controls(&self) -> &[ProvedControl] {
        &self.controls
    }

    /// Required walls that do not stand.
    pub fn missing_walls(&self) -> Controls {
        let stands = |control: &Control| {
            self.controls.iter().any(|proved| proved.control == *control && proved.level == Level::Enforced)
        };
        let required = Control::ALL.into_iter().filter(|control| control.is_required());
        required.filter(|control| !stands(control)).fold(Controls::NONE, Controls::with)
    }
}

/// Makes and keeps proofs.
#[derive(Clone, Debug)]
pub struct Proofs {
    /// Where they are kept; `None` proves anew every time.
    pub folder: Option<PathBuf>,
    /// A binary whose `main` begins with [`crate::serve_if_asked`].
    pub prober: PathBuf,
}

/// For which machine state a proof is good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    boot: String,
    binary: (u64, u64, u64, i64, i64),
    user: u32,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    key: Key,
    proof: Proof,
}

impl Proofs {
    /// The proof of this boot, this binary and this user; the canaries run if there is none.
    pub fn current(&self, launch: impl Fn(Job) -> Result<Report, Refusal>) -> Result<Proof, Refusal> {
        let key = self.key();
        if let Some(proof) = key.as_ref().and_then(|key| self.kept(key)) {
            return Ok(proof);
        }
        self.renew(launch)
    }

    /// Runs the canaries and keeps what they prove.
    pub fn renew(&self, launch: impl Fn(Job) -> Result<Report, Refusal>) -> Result<Proof, Refusal> {
        let proof = prove(&self.prober, self.folder.as_deref(), launch)?;
        if let Some(key) = self.key() {
            // A proof that cannot be kept is made again next time: slower, not weaker.
            let _ = self.keep(&Kept { key, proof: proof.clone() });
        }
        Ok(proof)
    }

    fn key(&self) -> Option<Key> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let binary = fs::metadata(&self.prober).ok()?;
        Some(Key {
            boot: boot.trim().to_owned(),
            binary: (binary.dev(), binary.ino(), binary.size(), binary.mtime(), binary.mtime_nsec()),
            user: rustix::process::geteuid().as_raw(),
        })
    }

    fn file(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join("native-proof.json"))
    }

    fn kept(&self, key: &Key) -> Option<Proof> {
        let nofollow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let mut file = fs::OpenOptions::new().read(true).custom_flags(nofollow).open(self.file()?).ok()?;
        let status = file.metadata().ok()?;
        // ATTACK(planted-proof): only our own file counts, and only if nobody else can write it. The open file is
        // asked, because its name may be another's by now.
        if !status.is_file() || status.uid() != key.user || status.mode() & 0o022 != 0 {
            return None;
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        let kept: Kept = serde_json::from_slice(&text).ok()?;
        (kept.key == *key).then_some(kept.proof)
    }

    fn keep(&self, kept: &Kept) -> io::Result<()> {
        let (Some(folder), Some(path)) = (&self.folder, self.file()) else { return Ok(()) };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let fresh = path.with_extension(format!("new-{}", std::process::id()));
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        let written = serde_json::to_writer(&file, kept).map_err(io::Error::from);
        let renamed = written.and_then(|()| fs::rename(&fresh, &path));
        if renamed.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        renamed
    }
}

/// Runs every canary once.
fn prove(
    prober: &Path,
    folder: Option<&Path>,
    launch: impl Fn(Job) -> Result<Report, Refusal>,
) -> Result<Proof, Refusal> {
    let plant = Planted::new(folder).map_err(Refusal::Canaries)?;
    let run = |probe: &Probe, limits: Limits| launch(job(prober, probe, &plant, limits)?);

    let walls = run(&Probe::Walls(plant.targets()), Limits::default())?;
    let mut attempts: BTreeMap<Control, Attempt> = told(&walls, &Control::ALL).into_iter().collect();

    let memory = run(&Probe::Memory(64 * 1024 * 1024), Limits { memory: 32 * MIB, ..Limits::default() })?;
    let stopped = matches!(memory.outcome, Outcome::Stopped(Limit::Memory) | Outcome::Signal(_));
    attempts.insert(Control::Memory, held_if(stopped, "took twice the memory it may have"));

    let totals = run(&Probe::Totals, Limits { pids: 16, disk: MIB, ..Limits::default() })?;
    attempts.extend(told(&totals, &[Control::Pids, Control::Disk]));

    let print = run(&Probe::Print(65_536), Limits { output: 1024, ..Limits::default() })?;
    attempts.insert(Control::Output, held_if(print.stdout.bytes.len() == 1024, "wrote past its cap"));

    let spin = Limits { timeout: Duration::from_millis(250), cpu_millis: 200, ..Limits::default() };
    let spin = run(&Probe::Spin, spin)?;
    attempts.insert(
        Control::Timeout,
        held_if(spin.outcome == Outcome::Stopped(Limit::Timeout), "outlived its timeout"),
    );
    // Where it is a matter of affinity, a share of one processor is all of it, and the canary cannot tell.
    if spin.enforcement.level(Control::Cpu) == Level::Enforced {
        let burnt = spin.usage.cpu_user + spin.usage.cpu_system;
        attempts.insert(Control::Cpu, held_if(burnt < Duration::from_millis(170), "used all of a processor"));
    }

    Ok(Proof {
        controls: Control::ALL.into_iter().map(|control| judge(control, &walls, &attempts)).collect(),
    })
}

/// The sandbox's own word, unless a canary knows better.
fn judge(control: Control, walls: &Report, attempts: &BTreeMap<Control, Attempt>) -> ProvedControl {
    let reported = walls.enforcement.findings().iter().find(|finding| finding.control == control);
    let (level, how) = reported.map_or((Level::Absent, String::new()), |f| (f.level, f.how.clone()));
    let (level, canary) = match attempts.get(&control) {
        // A limit that is only watched or leans on affinity may let a canary pass for a moment; it claims no more.
        Some(Attempt::Through(what)) if level == Level::Partly => {
            (Level::Partly, format!("got through: {what}"))
        }
        Some(Attempt::Through(what)) => (Level::Absent, format!("got through: {what}")),
        Some(Attempt::Held) => (level, "held".to_owned()),
        None if level == Level::Absent => (level, "not tried".to_owned()),
        None => (level, "the kernel's word: nothing inside could tell".to_owned()),
    };
    ProvedControl { control, level, how, canary }
}

/// What a prober said. One that said nothing has proved nothing of what it was asked.
fn told(report: &Report, asked: &[Control]) -> Attempts {
    serde_json::from_slice(&report.stdout.bytes).unwrap_or_else(|_| {
        let why = format!("the canary did not answer: {:?} {}", report.outcome, report.stderr.text());
        asked.iter().map(|control| (*control, Attempt::Through(why.clone()))).collect()
    })
}

fn job(prober: &Path, probe: &Probe, plant: &Planted, limits: Limits) -> Result<Job, Refusal> {
    let probe = serde_json::to_string(probe).map_err(|error| Refusal::Canaries(error.into()))?;
    let directory = |path: PathBuf, access, content| Directory { path, access, content };
    let plan = Plan::try_from(Draft {
        program: Program::Brought(prober.to_owned()),
        arguments: vec![CANARY_ARGUMENT.into(), probe.into()],
        working_directory: "/".into(),
        directories: vec![
            directory(plant.shown(), Access::Read, Content::Work),
            directory(plant.installed(), Access::Read, Content::Software),
            directory(plant.granted(), Access::Write, Content::Work),
        ],
        environment: vec![("CANARY".into(), OsString::from("1"))],
        names: Names::default(),
        network: Network::Closed,
        limits,
        changes: ChangeReport::Skip,
        strictness: Strictness::Report,
    })?;
    let path = plant.granted().join(SEALED);
    let plan = plan.sealing(vec![SealedFile { path, bytes: SEALED.len() as u64, executable: false }])?;
    Ok(Job { plan, sealed: SEALED.into(), streams: Streams::Collect { input: Feed::Bytes(Vec::new()) } })
}

/// What the canaries try for: files, a pipe, sockets and a listener of the host. Removed when dropped.
struct Planted {
    folder: PathBuf,
    listener: TcpListener,
    _socket: UnixListener,
}

impl Planted {
    #[expect(clippy::disallowed_methods, reason = "a listener on loopback that a canary must not reach")]
    fn new(folder: Option<&Path>) -> io::Result<Planted> {
        let folder = new_folder(folder)?;
        for path in ["shown", "installed", "granted/.git/hooks"] {
            fs::create_dir_all(folder.join(path))?;
        }
        fs::write(folder.join("secret"), "canary")?;
        fs::write(folder.join("shown/.env"), "SECRET=canary")?;
        fs::write(folder.join("granted").join(SEALED), "swapped")?;
        for pipe in ["shown/pipe", "installed/pipe"] {
            make_pipe(&folder.join(pipe))?;
        }
        let socket = UnixListener::bind(folder.join("shown/socket"))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        Ok(Planted { folder, listener, _socket: socket })
    }

    fn shown(&self) -> PathBuf {
        self.folder.join("shown")
    }

    fn installed(&self) -> PathBuf {
        self.folder.join("installed")
    }

    fn granted(&self) -> PathBuf {
        self.folder.join("granted")
    }

    fn targets(&self) -> Targets {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let namespaces =
            ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"].into_iter().filter_map(|name| {
                let link = fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
                Some((name.to_owned(), text(link)))
            });
        Targets {
            secret: text(self.folder.join("secret")),
            shown: text(self.shown()),
            installed: text(self.installed()),
            granted: text(self.granted()),
            listener: self.listener.local_addr().unwrap_or_else(|_| (Ipv4Addr::LOCALHOST, 9).into()),
            process: i32::try_from(std::process::id()).unwrap_or(i32::MAX),
            namespaces: namespaces.collect(),
            variables: vec!["CANARY".to_owned()],
        }
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A pipe that everyone may write, whatever our mask: only a wall stops them.
fn make_pipe(path: &Path) -> io::Result<()> {
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)?;
    Ok(rustix::fs::chmod(path, mode)?)
}

/// A fresh folder that nobody could have prepared: made, not found. Beside the proofs if possible, because `/tmp` is
/// writable scratch space inside, where the second wall cannot be told from the first.
fn new_folder(wanted: Option<&Path>) -> io::Result<PathBuf> {
    // The name of a socket is short; a folder with a long one has no room for it.
    let wanted = wanted.filter(|folder| folder.as_os_str().len() < 60);
    let made =
        wanted.filter(|folder| fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).is_ok());
    let base = made.map_or_else(std::env::temp_dir, Path::to_owned).canonicalize()?;
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..1000 {
        let folder = base.join(format!("toolgate-canary-{}-{attempt}", std::process::id()));
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) => last = error,
        }
    }
    Err(last)
}
