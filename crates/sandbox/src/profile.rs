//! The profiles of the `shell` tool as sandbox plans: what a kind of command may do, whatever the command is.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use jail::{
    Access, CERTIFICATES, ChangeReport, Content, DEFAULT_PATH, Directory, Draft, Guarded, HOME, Limits,
    Names, Network, PASSED_VARIABLES, Plan, PlanError, Program, Strictness, is_denied_variable,
};

/// What a kind of command may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Look: no writing outside scratch space, no sockets.
    Inspect,
    /// Make: write in granted directories, talk over loopback, use installed toolchains.
    Build,
    /// Change: the same walls as `Build`; what differs is which commands may ask for it.
    Mutate,
    /// Reach out: the same walls again, and a network that is guarded.
    Networked,
}

/// Toolchains in the caller's home that builds expect, and the variable that says where one is.
///
/// Only the parts without credentials: `.cargo/credentials.toml` stands beside `.cargo/bin`.
const TOOLCHAINS: [(&str, Option<&str>); 12] = [
    (".cargo/bin", None),
    (".cargo/registry", None),
    (".cargo/git", None),
    (".rustup", Some("RUSTUP_HOME")),
    (".pyenv", Some("PYENV_ROOT")),
    (".nvm", Some("NVM_DIR")),
    (".volta", Some("VOLTA_HOME")),
    (".bun", None),
    (".deno", None),
    (".sdkman", None),
    ("go", Some("GOPATH")),
    (".local/bin", None),
];

/// Software outside `/usr` that builds expect.
const SHARED_SOFTWARE: [&str; 2] = ["/opt", "/nix/store"];

/// How programs that bring certificates of their own are told of others.
const TRUST_VARIABLES: [&str; 8] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "PIP_CERT",
    "DENO_CERT",
];

/// What the caller is and has, read once at the edge.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// The caller's home directory.
    pub home: Option<PathBuf>,
    /// The caller's variables.
    pub variables: Vec<(OsString, OsString)>,
}

/// What a caller asks for, in a profile's terms.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// Which profile.
    pub profile: Profile,
    /// The command.
    pub program: Program,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where it starts, if that can be seen inside.
    pub working_directory: PathBuf,
    /// Directories to show.
    pub read: Vec<PathBuf>,
    /// A directory to show to a tool that works there for its owner, who may read more than strangers.
    pub workspace: Option<PathBuf>,
    /// Directories to grant.
    pub write: Vec<PathBuf>,
    /// Variables to set.
    pub variables: Vec<(OsString, OsString)>,
    /// Names to hide and protect.
    pub names: Names,
    /// The way out of its network, if it has one.
    pub guarded: Option<Guarded>,
    /// How much it may use.
    pub limits: Limits,
    /// Whether a list of changed files is wanted.
    pub changes: ChangeReport,
    /// What to do about limits that can only be watched.
    pub strictness: Strictness,
}

impl Profile {
    /// Reads the name used in configuration and on the command line.
    pub fn parse(text: &str) -> Option<Profile> {
        match text {
            "inspect" => Some(Profile::Inspect),
            "build" => Some(Profile::Build),
            "mutate" => Some(Profile::Mutate),
            "networked" => Some(Profile::Networked),
            _ => None,
        }
    }

    /// The name used in configuration and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Profile::Inspect => "inspect",
            Profile::Build => "build",
            Profile::Mutate => "mutate",
            Profile::Networked => "networked",
        }
    }

    /// Whether it may write anywhere but in scratch space.
    pub fn may_write(self) -> bool {
        self != Profile::Inspect
    }
}

impl PlanRequest {
    /// The plan that this request means on this host.
    pub fn into_plan(self, host: &Host) -> Result<Plan, PlanError> {
        let mut directories = Vec::new();
        let mut path = OsString::from(DEFAULT_PATH);
        let mut environment = Vec::new();
        if self.profile.may_write() {
            let toolchains = toolchains_of(host);
            path = search_path(&toolchains);
            environment.extend(toolchains.iter().filter_map(Toolchain::variable));
            if self.guarded.is_none() {
                environment.extend(cargo_home(host));
            }
            let shared = SHARED_SOFTWARE.iter().map(PathBuf::from).filter(|path| path.is_dir());
            let java = java_settings();
            directories.extend(toolchains.into_iter().map(Toolchain::into_directory));
            directories.extend(shared.chain(java).map(software));
        }
        directories.extend(self.read.iter().map(|path| work(path, Access::Read)));
        directories.extend(self.workspace.into_iter().map(|path| Directory {
            path,
            access: Access::Read,
            content: Content::Workspace,
        }));
        directories.extend(self.write.iter().map(|path| work(path, Access::Write)));

        environment.extend(passed_variables(host));
        environment.extend([
            ("PATH".into(), path),
            ("HOME".into(), HOME.into()),
            ("USER".into(), "agent".into()),
            ("LOGNAME".into(), "agent".into()),
            ("SHELL".into(), "/bin/sh".into()),
            ("TMPDIR".into(), "/tmp".into()),
        ]);
        if self.guarded.as_ref().is_some_and(|guarded| guarded.authority.is_some()) {
            environment.extend(TRUST_VARIABLES.map(|name| (name.into(), CERTIFICATES.into())));
        }
        set_variables(&mut environment, self.variables);

        let visible = directories.iter().any(|directory| self.working_directory.starts_with(&directory.path))
            || self.working_directory.starts_with("/usr");
        Plan::try_from(Draft {
            program: self.program,
            arguments: self.arguments,
            working_directory: if visible { self.working_directory } else { PathBuf::from("/") },
            directories,
            environment,
            names: self.names,
            network: match self.guarded {
                Some(guarded) => Network::Guarded(guarded),
                None if self.profile.may_write() => Network::Loopback,
                None => Network::Closed,
            },
            limits: self.limits,
            changes: self.changes,
            strictness: self.strictness,
        })
    }
}

fn work(path: &Path, access: Access) -> Directory {
    Directory { path: path.to_owned(), access, content: Content::Work }
}

fn software(path: PathBuf) -> Directory {
    Directory { path, access: Access::Read, content: Content::Software }
}

/// Java keeps settings it cannot start without in a directory of `/etc` named after its version.
fn java_settings() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/etc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("java"))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

/// A toolchain found in the caller's home.
struct Toolchain {
    directory: PathBuf,
    variable: Option<&'static str>,
    content: Content,
}

impl Toolchain {
    fn into_directory(self) -> Directory {
        Directory { path: self.directory, access: Access::Read, content: self.content }
    }

    fn variable(&self) -> Option<(OsString, OsString)> {
        self.variable.map(|name| (name.into(), self.directory.clone().into_os_string()))
    }
}

fn toolchains_of(host: &Host) -> Vec<Toolchain> {
    let Some(home) = &host.home else { return Vec::new() };
    let place = |(folder, variable): (&str, Option<&'static str>)| {
        let named = variable.and_then(|name| variable_of(host, name)).map(PathBuf::from);
        let usual = home.join(folder);
        // ATTACK(toolchain-is-the-home): only its usual place is known to hold software and nothing else; whatever a
        // variable names is searched for secrets like any other directory.
        let elsewhere = named.as_ref().is_some_and(|named| *named != usual);
        let content = if elsewhere { Content::Work } else { Content::Software };
        let directory = named.unwrap_or(usual);
        // One behind a link cannot be mounted by its name; its real place can.
        let directory = directory.canonicalize().ok()?;
        let holds_home = home.canonicalize().is_ok_and(|home| home.starts_with(&directory));
        (directory.is_dir() && !holds_home).then_some(Toolchain { directory, variable, content })
    };
    TOOLCHAINS.into_iter().filter_map(place).collect()
}

/// Cargo's home is shown in parts, so it has no toolchain entry of its own to name it. One who can fetch has to write there,
/// and gets an empty one instead.
fn cargo_home(host: &Host) -> Option<(OsString, OsString)> {
    let home = host.home.as_ref()?.join(".cargo");
    home.is_dir().then(|| ("CARGO_HOME".into(), home.into_os_string()))
}

fn variable_of<'a>(host: &'a Host, name: &str) -> Option<&'a OsStr> {
    host.variables.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_os_str())
}

fn search_path(toolchains: &[Toolchain]) -> OsString {
    let mut path = OsString::new();
    for toolchain in toolchains {
        for folder in ["shims", "bin"] {
            let candidate = toolchain.directory.join(folder);
            if candidate.is_dir() {
                path.push(candidate);
                path.push(":");
            }
        }
        if toolchain.directory.ends_with("bin") {
            path.push(&toolchain.directory);
            path.push(":");
        }
    }
    path.push(DEFAULT_PATH);
    path
}

fn passed_variables(host: &Host) -> impl Iterator<Item = (OsString, OsString)> {
    host.variables.iter().filter(|(name, _)| is_passed(name) && !is_denied_variable(name)).cloned()
}

fn is_passed(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| PASSED_VARIABLES.contains(&name) || name.starts_with("LC_"))
}

/// The caller's own settings replace ours of the same name.
fn set_variables(environment: &mut Vec<(OsString, OsString)>, wanted: Vec<(OsString, OsString)>) {
    for (name, value) in wanted {
        environment.retain(|(existing, _)| *existing != name);
        environment.push((name, value));
    }
}

/// Whether a path is on the list of directories that a profile shows by itself.
#[cfg(test)]
fn shows(plan: &Plan, path: &Path) -> Option<Access> {
    plan.draft().directories.iter().find(|directory| directory.path == path).map(|directory| directory.access)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(profile: Profile) -> PlanRequest {
        PlanRequest {
            profile,
            program: Program::Inside("true".into()),
            arguments: Vec::new(),
            working_directory: "/work/project".into(),
            read: vec!["/work/project".into()],
            workspace: None,
            write: Vec::new(),
            variables: Vec::new(),
            names: Names::default(),
            guarded: None,
            limits: Limits::default(),
            changes: ChangeReport::Skip,
            strictness: Strictness::Report,
        }
    }

    #[test]
    fn inspect_shows_what_was_asked_and_closes_loopback() {
        let plan = request(Profile::Inspect).into_plan(&Host::default()).unwrap();
        assert_eq!(plan.draft().network, Network::Closed);
        assert_eq!(plan.draft().directories.len(), 1);
        assert_eq!(shows(&plan, Path::new("/work/project")), Some(Access::Read));
    }

    #[test]
    fn only_harmless_variables_of_the_caller_are_passed() {
        let variables = vec![
            ("LANG".into(), "C.UTF-8".into()),
            ("LC_ALL".into(), "C".into()),
            ("LC_API_TOKEN".into(), "sk".into()),
            ("ANTHROPIC_API_KEY".into(), "sk".into()),
            ("SSH_AUTH_SOCK".into(), "/run/x".into()),
        ];
        let plan = request(Profile::Inspect).into_plan(&Host { home: None, variables }).unwrap();
        let names: Vec<&OsStr> = plan.draft().environment.iter().map(|(name, _)| name.as_os_str()).collect();
        assert!(names.contains(&OsStr::new("LANG")) && names.contains(&OsStr::new("LC_ALL")));
        assert!(
            !names.contains(&OsStr::new("ANTHROPIC_API_KEY"))
                && !names.contains(&OsStr::new("SSH_AUTH_SOCK"))
        );
    }

    #[test]
    fn a_working_directory_that_cannot_be_seen_inside_becomes_the_root() {
        let plan = PlanRequest { working_directory: "/elsewhere".into(), ..request(Profile::Inspect) };
        assert_eq!(plan.into_plan(&Host::default()).unwrap().draft().working_directory, Path::new("/"));
    }

    #[test]
    fn a_variable_that_is_set_replaces_ours() {
        let plan =
            PlanRequest { variables: vec![("HOME".into(), "/tmp".into())], ..request(Profile::Inspect) };
        let plan = plan.into_plan(&Host::default()).unwrap();
        let homes: Vec<_> = plan.draft().environment.iter().filter(|(name, _)| name == "HOME").collect();
        assert_eq!(homes, [&("HOME".into(), "/tmp".into())]);
    }
}
