//! What a configuration means: [`policy::Settings`], and what runs calls, where, for how long.
//!
//! Pure but for `hooks`, whose programs are looked at, files of rules, which are read, and [`Meaning::settings_in`], which asks the file system where
//! directories really are.
//!
//! # Invariants
//! - Every name in a meaning exists: agents, levels, actions and tools are parsed here or refused.
//! - What this version cannot hold to means the stricter choice, and a warning.

mod agents;
mod approval;
mod backends;
mod cedar;
mod credentials;
mod disclosure;
mod egress;
mod hooks;
mod lifecycle;
mod limits;
mod mcp;
mod money;
mod oauth;
mod origins;
mod rates;
mod rule_example;
mod rule_text;
mod running;
mod telling;
mod tls;
mod trust;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use contract::{Action, ActionError, Actions, AgentName, Category, Level, nearest, show_hidden};
use policy::{Agent, ArgumentTypes, FindingKind, Overrides, Preset, Setting, Settings, ToolGlob};
use sandbox::BackendName;
use serde_json::{Value, json};
use server::AccessTokenSettings;
use tools::Lifecycle;

pub(crate) use running::WhileRunning;
pub(crate) use telling::{Channel, ChannelWay, Chat, Collector, Telling};
pub(crate) use tls::Tls;

use super::at::{At, Given, Place};
use super::file::{File, LevelFile};
use super::problem::{Problem, shown};
use super::tool_names;
use super::way::way_through;

/// The agent that is there where nobody has defined another.
const DEFAULT_AGENT: &str = "default";

/// What a configuration means.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Meaning {
    /// What decides. For a decision take [`Meaning::settings_in`], which also knows the workspaces.
    pub(crate) settings: Settings,
    /// The presets that agents have.
    pub(crate) presets: BTreeMap<AgentName, Preset>,
    /// Where agents work that have a place of their own.
    pub(crate) workspaces: BTreeMap<AgentName, PathBuf>,
    /// Where agents must work to touch files at all.
    pub(crate) file_directories: Option<Vec<PathBuf>>,
    /// Where agents must work to run commands at all.
    pub(crate) shell_directories: Option<Vec<PathBuf>>,
    /// What runs the calls of each category.
    pub(crate) backends: BTreeMap<Category, BackendName>,
    /// How long calls of a category may take at most, in milliseconds, where the configuration says.
    pub(crate) timeouts: BTreeMap<Category, u64>,
    /// Whom workers are kept for, and how long.
    pub(crate) lifecycle: Lifecycle,
    /// Actions that were registered besides ours.
    pub(crate) custom_actions: Vec<String>,
    /// What keeps the records, if it is not a file in the state folder.
    pub(crate) store: Option<Records>,
    /// Where `toolgate up` listens.
    pub(crate) listen: SocketAddr,
    /// By which certificate it is known, and under which names.
    pub(crate) tls: Option<Tls>,
    /// Whose tokens let agents in over MCP, besides the gate's own.
    pub(crate) access_tokens: Option<AccessTokenSettings>,
    /// What was read and is not in force yet.
    pub(crate) kept: Value,
    /// What a gate that runs needs to know.
    pub(crate) while_running: WhileRunning,
    /// Who is told what happens, and who brings answers.
    pub(crate) telling: Telling,
    /// How many examples of rules hold.
    pub(crate) examples: usize,
    /// Rules that have none, or none of a call that they are about.
    pub(crate) without_examples: Vec<LacksExamples>,
}

/// A rule of which examples do not show what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LacksExamples {
    /// Where it stands.
    pub(crate) place: String,
    /// Its name, if it has one.
    pub(crate) name: Option<String>,
    /// Whether there are none, or none of a call that it is about.
    pub(crate) kind: FindingKind,
}

/// What keeps the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Records {
    /// A file of SQLite.
    File(PathBuf),
    /// A database of a PostgreSQL server, by a URL without a password.
    Server(String),
    /// Whatever this variable of the environment names when the gate is opened.
    Variable(String),
}

impl fmt::Display for Records {
    /// As it is written in a configuration.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Records::File(path) => write!(formatter, "sqlite:{}", show_hidden(&path.to_string_lossy())),
            Records::Server(url) => formatter.write_str(&show_hidden(url)),
            Records::Variable(name) => write!(formatter, "env:{name}"),
        }
    }
}

impl Default for Meaning {
    fn default() -> Meaning {
        let agents = AgentName::parse(DEFAULT_AGENT).map(|name| (name, Agent::default()));
        Meaning {
            settings: Settings { agents: agents.into_iter().collect(), ..Settings::default() },
            presets: BTreeMap::new(),
            workspaces: BTreeMap::new(),
            file_directories: None,
            shell_directories: None,
            backends: Category::ALL.iter().map(|category| (*category, BackendName::Native)).collect(),
            timeouts: BTreeMap::new(),
            lifecycle: Lifecycle::default(),
            custom_actions: Vec::new(),
            store: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7433)),
            tls: None,
            access_tokens: None,
            kept: json!({}),
            while_running: WhileRunning::default(),
            telling: Telling::default(),
            examples: 0,
            without_examples: Vec::new(),
        }
    }
}

impl Meaning {
    /// What a tree means that was read from the text of a file, and what a person should know; or all that is wrong with it.
    pub(crate) fn of(tree: &File, text: &str, path: &Path) -> Result<(Meaning, Vec<Problem>), Vec<Problem>> {
        let mut reader = Reader::new(text, path);
        let meaning = reader.read(tree);
        // Decisions name the settings by their hash, so they must have one.
        if let Err(error) = meaning.settings.hash() {
            reader.refuse(Place::START, error.to_string());
        }
        if !reader.problems.is_empty() {
            return Err(reader.problems);
        }
        reader.warnings.sort();
        Ok((meaning, reader.warnings))
    }

    /// Where an agent works, for a caller who is here.
    pub(crate) fn workspace_of<'a>(&'a self, agent: &AgentName, here: &'a Path) -> &'a Path {
        self.workspaces.get(agent).map_or(here, PathBuf::as_path)
    }

    /// The settings for a caller who is here, and what a person should know: an agent whose workspace is outside of the
    /// directories that a tool is allowed in does not have that tool.
    pub(crate) fn settings_in(&self, here: &Path) -> (Settings, Vec<String>) {
        let mut settings = self.settings.clone();
        let mut warnings = Vec::new();
        let tools = [
            ("fs.*", "tools.filesystem", &self.file_directories, Setting::FileDirectories),
            ("shell", "tools.bash", &self.shell_directories, Setting::ShellDirectories),
        ];
        let mut origins = settings.origins.clone();
        let workspaces: Vec<PathBuf> =
            self.workspaces.values().map(|path| real(path)).chain([real(here)]).collect();
        for (name, agent) in &mut settings.agents {
            let workspace = real(self.workspace_of(name, here));
            if let Some(Records::File(store)) = &self.store
                && real(store).starts_with(&workspace)
            {
                warnings.push(format!(
                    "agent `{name}` could change the records: `store` is in its workspace; keep it elsewhere"
                ));
            }
            for (tool, section, directories, setting) in &tools {
                let Some(directories) = directories else { continue };
                // ATTACK(linked-configuration): what an agent can lead elsewhere says nothing about where it works.
                let is_plain = |directory: &Path| {
                    workspaces.iter().all(|workspace| way_through(directory, workspace).is_none())
                };
                let holds =
                    |directory: &PathBuf| workspace.starts_with(real(directory)) && is_plain(directory);
                if directories.iter().any(holds) {
                    continue;
                }
                agent.denied.extend(ToolGlob::parse(tool));
                let denied = Setting::Denied(name.clone(), (*tool).to_owned());
                if let Some(place) =
                    origins.of(setting).map(str::to_owned).filter(|_| origins.of(&denied).is_none())
                {
                    origins.insert(denied, place);
                }
                let shown = show_hidden(&workspace.to_string_lossy());
                warnings.push(format!(
                    "agent `{name}` has no `{tool}`: its workspace `{shown}` is outside of `{section}.allowed_directories`"
                ));
            }
        }
        settings.origins = origins;
        (settings, warnings)
    }
}

/// A path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Reads a tree to its end, whatever is wrong with it on the way.
struct Reader {
    /// The file's own name, for people who read a decision.
    file: String,
    /// Its text.
    source: String,
    /// Where relative paths begin.
    folder: PathBuf,
    actions: Actions,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    examples: usize,
    without_examples: Vec<LacksExamples>,
}

impl Reader {
    fn new(text: &str, path: &Path) -> Reader {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let folder = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        Reader {
            file: show_hidden(&file),
            source: text.to_owned(),
            folder: std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()),
            actions: Actions::default(),
            problems: Vec::new(),
            warnings: Vec::new(),
            examples: 0,
            without_examples: Vec::new(),
        }
    }

    fn read(&mut self, tree: &File) -> Meaning {
        let custom_actions = self.custom_actions(tree);
        let first_level = self.first_level(tree);
        let roles = self.roles(tree);
        let (agents, workspaces) = self.agents(tree, first_level, &roles);
        let (backends, unavailable) = self.backends(tree);
        let tools = tree.tools.get();
        let bash = tools.and_then(|tools| tools.bash.get());
        let files = tools.and_then(|tools| tools.filesystem.get());
        let prices = self.prices(tree);
        let budgets = self.budgets(tree, &agents, &prices);
        let mut egress = self.egress(tree);
        let upstreams = self.servers(tree, &mut egress, &agents);
        let access = tree.mcp.get().and_then(|mcp| mcp.oauth.at());
        let access_tokens = access.and_then(|access| self.access_tokens(access, &agents));
        let telling = self.telling(tree, &egress.private);
        let mut settings = Settings {
            agents,
            roles,
            levels: self.levels(tree),
            rules: self.rules(tree),
            cedar: Vec::new(),
            argument_types: ArgumentTypes::default(),
            origins: self.origins(tree),
            disabled: self.disabled(tree),
            unavailable,
            shell: self.shell(bash),
            files: self.files(files),
            egress,
            upstreams,
            rates: self.rates(tree),
            resources: self.resources(tree),
            prices,
            budgets,
            max_arguments: self.max_arguments(tree),
            ask_for: self.ask_for(tree),
            asking: self.asking(tree),
            hooks: self.hooks(tree),
            disclosure: self.disclosure(tree),
        };
        self.cedar(tree, &mut settings, &custom_actions);
        self.keep_for_later(tree);
        let tls = self.tls(tree);
        Meaning {
            settings,
            presets: agents::presets(tree),
            workspaces,
            file_directories: files.and_then(|files| self.directories(&files.allowed_directories)),
            shell_directories: bash.and_then(|bash| self.directories(&bash.allowed_directories)),
            timeouts: self.timeouts(tree, &backends),
            lifecycle: self.lifecycle(tree),
            backends,
            custom_actions,
            store: self.store(tree),
            listen: self.listen(tree, tls.as_ref()),
            tls,
            access_tokens,
            kept: limits::kept(tree),
            while_running: self.while_running(tree),
            telling,
            examples: self.examples,
            without_examples: std::mem::take(&mut self.without_examples),
        }
    }

    fn custom_actions(&mut self, tree: &File) -> Vec<String> {
        let mut registered = Vec::new();
        for action in tree.actions.get().into_iter().flatten() {
            match self.actions.register(&action.value) {
                Ok(()) => registered.push(action.value.clone()),
                Err(error) => self.refuse(action.place, show_hidden(&error.to_string())),
            }
        }
        registered
    }

    fn levels(&mut self, tree: &File) -> BTreeMap<Level, Overrides> {
        let Some(levels) = tree.tool_access.get().and_then(|access| access.levels.get()) else {
            return BTreeMap::new();
        };
        let given = [
            (Level::Sandboxed, &levels.sandboxed),
            (Level::Restricted, &levels.restricted),
            (Level::Standard, &levels.standard),
            (Level::Elevated, &levels.elevated),
            (Level::Custom, &levels.custom),
        ];
        let mut read = BTreeMap::new();
        for (level, file) in given.into_iter().filter_map(|(level, file)| Some((level, file.get()?))) {
            let overrides = self.overrides(file);
            self.remark_on_level(level, file, &overrides);
            if overrides != Overrides::default() {
                read.insert(level, overrides);
            }
        }
        read
    }

    fn overrides(&mut self, level: &LevelFile) -> Overrides {
        let categories = level.categories.get();
        let wider = level.file_system.at().filter(|at| at.value.0 > policy::FileSystem::WorkspaceOnly);
        if let Some(at) = wider {
            self.warn_once(
                at.place,
                "`file_system` is read but not in force yet: every tool keeps to the workspace",
            );
        }
        Overrides {
            categories: categories.map(|words| words.iter().map(|word| word.0).collect()),
            file_system: level.file_system.get().map(|word| word.0),
            network: level.network.get().map(|word| word.0),
            git: level.git.get().map(|word| word.0),
            terminal: level.terminal.get().map(|word| word.0),
            deployment: level.deployment.get().copied(),
            requires_approval: self.action_set(&level.requires_approval),
        }
    }

    /// A dimension of what the level does not include does nothing, which is rarely what was meant.
    fn remark_on_level(&mut self, level: Level, file: &LevelFile, overrides: &Overrides) {
        let included = policy::Constraints::of(level).with(overrides).categories;
        let opened = [
            (
                Category::Terminal,
                file.terminal.at().filter(|at| at.value.0 != policy::Terminal::None).map(|at| at.place),
            ),
            (Category::Deployment, file.deployment.at().filter(|at| at.value).map(|at| at.place)),
        ];
        for (category, place) in opened {
            let Some(place) = place.filter(|_| !included.contains(&category)) else { continue };
            let message = format!(
                "`{category}` has no effect: level `{level}` does not include it; name it under `categories`"
            );
            self.warn(place, message);
        }
    }

    /// All actions of a list, where one was given.
    fn action_set(&mut self, list: &Given<Vec<At<String>>>) -> Option<BTreeSet<Action>> {
        let mut set = BTreeSet::new();
        for text in list.get()? {
            match self.actions.expand(&text.value) {
                Ok(actions) => set.extend(actions),
                Err(ActionError::Unknown { nearest: near, .. }) => {
                    // The words of other systems, which are no actions of ours.
                    let foreign =
                        || nearest(&text.value, ["database_write", "deployment"]).map(str::to_owned);
                    let near = near.or_else(foreign);
                    let hint = if near.is_none() { "; name it under `actions` if it is yours" } else { "" };
                    let message = format!("there is no action `{}`{hint}", shown(&text.value));
                    self.problems.push(Problem { nearest: near, ..Problem::new(text.place, message) });
                }
                Err(error @ ActionError::Form { .. }) => {
                    self.refuse(text.place, show_hidden(&error.to_string()));
                }
            }
        }
        Some(set)
    }

    fn patterns(&mut self, list: &Given<Vec<At<String>>>) -> Vec<ToolGlob> {
        list.get().into_iter().flatten().filter_map(|text| self.pattern(text)).collect()
    }

    fn pattern(&mut self, text: &At<String>) -> Option<ToolGlob> {
        match tool_names::pattern(text, &mut self.warnings) {
            Ok(pattern) => Some(pattern),
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        }
    }

    fn directories(&mut self, list: &Given<Vec<At<String>>>) -> Option<Vec<PathBuf>> {
        Some(list.get()?.iter().filter_map(|text| self.path(text)).collect())
    }

    /// A path that begins at this file if it begins nowhere else.
    fn path(&mut self, text: &At<String>) -> Option<PathBuf> {
        let why = match text.value.as_str() {
            "" => "a path is missing here".to_owned(),
            text if text.contains('\0') => format!("`{}` is not a path", shown(text)),
            "~" => "`~` is not understood here: write the whole path".to_owned(),
            text if text.starts_with("~/") || text.contains('$') => {
                format!("`{}`: neither `~` nor `$` is understood here: write the whole path", shown(text))
            }
            // It would not name what it seems to once a link stands in it.
            text if Path::new(text).components().any(|part| part == std::path::Component::ParentDir) => {
                format!("`{}`: write the path without `..`", shown(text))
            }
            text => return Some(self.folder.join(text).components().collect()),
        };
        self.refuse(text.place, why);
        None
    }

    fn refuse(&mut self, place: Place, message: impl Into<String>) {
        self.problems.push(Problem::new(place, message));
    }

    /// A warning that means the same wherever it stands: the first place is enough.
    fn warn_once(&mut self, place: Place, message: &str) {
        if !self.warnings.iter().any(|warning| warning.message == message) {
            self.warn(place, message);
        }
    }

    fn warn(&mut self, place: Place, message: impl Into<String>) {
        let message = message.into();
        // Whoever reads it sees the place before it anyway.
        let bare = message.strip_prefix(&format!("{}:{}: ", self.file, place.line));
        self.warnings.push(Problem::new(place, bare.unwrap_or(&message)));
    }
}
