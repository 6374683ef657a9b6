//! Where the attacks are made: a folder of the host, what the host has, and who the caller is.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use jail::{Caller, Control, Helper, Warm};

use crate::Try;
use crate::launch::{Mode, Site, Start};
use crate::place::{Place, copy_program};

/// Where places that must not lie beneath `/tmp` are made, if a caller does not say. `/tmp` is scratch space inside a
/// sandbox, and a read-only directory beneath it has one wall instead of two.
const BASES: [&str; 2] = ["/var/lib", "/srv"];

/// The folder and the host.
pub(crate) struct Bench {
    /// For places; removed when dropped.
    base: PathBuf,
    /// This binary, where everyone can execute it.
    pub(crate) tool: PathBuf,
    /// The same, to launch sandboxes with.
    pub(crate) helper: Helper,
    /// Sandboxes of it that wait.
    pub(crate) warm: Warm,
    pub(crate) caller: Caller,
    pub(crate) settings: Settings,
}

/// What the environment says about this run of the suite.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Where to make places.
    pub(crate) folder: Option<PathBuf>,
    /// What must not be skipped.
    pub(crate) required: Vec<String>,
    /// Whether to try what takes long.
    pub(crate) long: bool,
    /// The caller's home.
    pub(crate) home: Option<PathBuf>,
    /// A server for stores on PostgreSQL, if there is one.
    pub(crate) postgres: Option<String>,
    /// The binary that is shipped, if it is built.
    pub(crate) shipped: Option<PathBuf>,
}

impl Settings {
    #[expect(clippy::disallowed_methods, reason = "the one place of the suite that reads its environment")]
    pub(crate) fn read() -> Settings {
        let text = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let required: OsString = text("TOOLGATE_REQUIRE").unwrap_or_default();
        Settings {
            folder: text("TOOLGATE_ATTACKS_DIR").map(PathBuf::from),
            required: required.to_string_lossy().split(',').map(str::to_owned).collect(),
            long: text("TOOLGATE_LONG").is_some(),
            home: text("HOME").map(PathBuf::from),
            postgres: text("TOOLGATE_TEST_POSTGRES").and_then(|url| url.into_string().ok()),
            // Else where cargo puts it: beside the folder of this one.
            shipped: text("TOOLGATE_BIN").map(PathBuf::from).or_else(|| {
                let built = std::env::current_exe().ok()?.parent()?.with_file_name("toolgate");
                built.is_file().then_some(built)
            }),
        }
    }
}

/// Something a case cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Root calls.
    Root,
    /// An ordinary user calls.
    User,
    /// A program of the host.
    Program(&'static str),
    /// A file that the caller can read.
    File(&'static str),
    /// Landlock of this version.
    Landlock(i32),
    /// A kernel that still lets a process type into its own terminal.
    Typing,
    /// A folder that is not beneath `/tmp`.
    OutsideTmp,
    /// More than one processor.
    Processors,
    /// A way out of this machine.
    Route,
    /// Time.
    Long,
}

impl Need {
    /// What is missing, if it is.
    pub(crate) fn missing(self, bench: &Bench) -> Option<String> {
        let lacks = |lacks: bool, what: &str| lacks.then(|| what.to_owned());
        match self {
            Need::Root => lacks(bench.caller == Caller::User, "does not matter for an ordinary user"),
            Need::User => lacks(bench.caller == Caller::Root, "does not matter for root"),
            Need::Program(name) => lacks(find_program(name).is_none(), &format!("no `{name}` here")),
            Need::File(path) => lacks(fs::File::open(path).is_err(), &format!("cannot read `{path}`")),
            Need::Landlock(version) => lacks(
                jail::landlock_version().is_none_or(|has| has < version),
                &format!("Landlock is older than version {version}"),
            ),
            Need::Typing => {
                let setting = fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti").unwrap_or_default();
                lacks(setting.trim() == "0", "this kernel lets nobody type into a terminal")
            }
            Need::OutsideTmp => {
                lacks(bench.is_beneath_tmp(), "TOOLGATE_ATTACKS_DIR must name a folder outside /tmp")
            }
            Need::Processors => lacks(processors() < 2, "there is only one processor"),
            Need::Route => lacks(!has_route(), "this host has no route to the outside"),
            Need::Long => lacks(!bench.settings.long, "takes long; TOOLGATE_LONG=1 tries it"),
        }
    }

    /// By which name `TOOLGATE_REQUIRE` asks for it. What depends on the caller or on time cannot be required.
    pub(crate) fn required_as(self) -> Option<&'static str> {
        match self {
            Need::Root | Need::User | Need::File(_) | Need::Long => None,
            Need::Program(name) => Some(name),
            Need::Landlock(_) | Need::OutsideTmp => Some("native"),
            Need::Typing => Some("typing"),
            Need::Processors => Some("processors"),
            Need::Route => Some("network"),
        }
    }
}

impl Bench {
    pub(crate) fn new(settings: Settings) -> Try<Bench> {
        let base = make_base(&settings)?;
        // In a folder of its own: whoever is granted that sees nothing else.
        let tool = base.join("tools/tool");
        make_tools(&tool)?;
        copy_program(&std::env::current_exe()?, &tool)?;
        let helper = Helper { binary: tool.clone() };
        let warm = Warm::new(helper.clone());
        Ok(Bench { base, tool, helper, warm, caller: Caller::current(), settings })
    }

    /// A place for one attempt.
    pub(crate) fn site(&self, mode: Mode) -> Try<Site<'_>> {
        self.site_from(mode, Start::Cold)
    }

    /// The same with sandboxes that come from there.
    pub(crate) fn site_from(&self, mode: Mode, start: Start) -> Try<Site<'_>> {
        Ok(Site {
            bench: self,
            mode,
            start,
            place: Place::new(&self.base)?,
            can_be_in_place: AtomicBool::new(false),
        })
    }

    fn is_beneath_tmp(&self) -> bool {
        ["/tmp", jail::HOME].iter().any(|scratch| self.base.starts_with(scratch))
    }

    /// Whether the host may do no more than watch this, for this caller.
    pub(crate) fn may_be_partly(&self, control: Control) -> bool {
        match control {
            // Granted directories are always watched; only scratch space and single files are held.
            Control::Disk => true,
            Control::Memory | Control::Cpu => self.caller == Caller::User,
            Control::LandlockFiles => self.is_beneath_tmp(),
            _ => false,
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}

fn make_tools(tool: &Path) -> Try<()> {
    let tools = tool.parent().ok_or("no folder")?;
    fs::create_dir(tools)?;
    Ok(fs::set_permissions(tools, Permissions::from_mode(0o755))?)
}

fn make_base(settings: &Settings) -> Try<PathBuf> {
    let named = settings.folder.clone().into_iter();
    let usual = BASES.iter().map(PathBuf::from);
    let own = settings.home.clone().into_iter().chain([std::env::temp_dir()]);
    let mut tried = Vec::new();
    for parent in named.chain(usual).chain(own) {
        match make_in(&parent) {
            Ok(base) => return Ok(base),
            Err(error) => tried.push(format!("{}: {error}", parent.display())),
        }
    }
    Err(format!("no folder for the attacks: {}", tried.join(", ")).into())
}

fn make_in(parent: &Path) -> Try<PathBuf> {
    let folder = tempfile::Builder::new().prefix("toolgate-attacks-").tempdir_in(parent.canonicalize()?)?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    Ok(folder.keep())
}

/// A program of the host, where programs usually are.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    jail::DEFAULT_PATH.split(':').map(|folder| Path::new(folder).join(name)).find(|file| file.is_file())
}

/// Processors this process may use.
pub(crate) fn processors() -> u32 {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count())
}

/// Whether a datagram could leave this machine. None is sent.
#[expect(clippy::disallowed_methods, reason = "asks the kernel for a route; nothing is sent")]
fn has_route() -> bool {
    std::net::UdpSocket::bind("0.0.0.0:0").is_ok_and(|socket| socket.connect("169.254.169.254:80").is_ok())
}
