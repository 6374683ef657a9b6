//! The words a configuration may use where it has to choose, those of other systems among them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use contract::{Autonomy, Category, Level};
use engine::OnBadReload;
use policy::{
    Era, FileSystem, Git, HookTime, NamePrefix, Network, Over, Passed, Per, Period, Preset, Seniority,
    SignInGrant, Terminal, WorkspaceAccess,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{EnumAccess, Error, MapAccess, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tools::KeptFor;

/// Each becomes a type that reads its words and nothing else. Of two words with one meaning the first is ours.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident: $type:ty { $($text:literal => $value:expr),+ $(,)? })+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name(pub(crate) $type);

        impl $name {
            const WORDS: &'static [&'static str] = &[$($text),+];

            /// Our word for it.
            pub(crate) fn as_str(self) -> &'static str {
                [$(($text, $value)),+].into_iter().find(|(_, value)| *value == self.0).map_or("", |(text, _)| text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                // As an enum, because the parser then knows where the word stands that is not one of them.
                deserializer.deserialize_enum(stringify!($name), $name::WORDS, WordVisitor::<$name>(PhantomData))
            }
        }

        impl Word for $name {
            fn parse<E: Error>(text: &str) -> Result<$name, E> {
                match text {
                    $($text => Ok($name($value)),)+
                    _ => Err(E::unknown_variant(text, $name::WORDS)),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "enum": $name::WORDS })
            }
        }
    )+ };
}

/// Read from one word.
trait Word: Sized {
    fn parse<E: Error>(text: &str) -> Result<Self, E>;
}

/// A word by itself.
struct WordVisitor<W>(PhantomData<W>);

impl<'de, W: Word> Visitor<'de> for WordVisitor<W> {
    type Value = W;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a word")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<W, A::Error> {
        let (Identifier(word), rest) = data.variant()?;
        rest.unit_variant()?;
        Ok(word)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<W, E> {
        W::parse(text)
    }
}

/// A word in the place of a variant's name.
struct Identifier<W>(W);

impl<'de, W: Word> Deserialize<'de> for Identifier<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Identifier<W>, D::Error> {
        deserializer.deserialize_identifier(WordVisitor(PhantomData)).map(Identifier)
    }
}

/// What runs a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Backend {
    Deny,
    Native,
    Subprocess,
    Docker,
    Kubernetes,
    Microvm,
    Remote,
}

/// How trust grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strategy {
    Disabled,
    Weighted,
    PerCategory,
    Milestone,
}

/// What an approval rule says, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RuleAction {
    Approve,
    Deny,
    Prompt,
    Budget,
}

/// What a rule in Cedar says about an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Expect {
    Forbid,
    Ask,
    Nothing,
}

words! {
    /// An access level.
    LevelWord: Level {
        "sandboxed" => Level::Sandboxed, "restricted" => Level::Restricted, "standard" => Level::Standard,
        "elevated" => Level::Elevated, "custom" => Level::Custom,
    }
    /// How often an agent has to ask.
    AutonomyWord: Autonomy {
        "full" => Autonomy::Full, "semi" => Autonomy::Semi, "supervised" => Autonomy::Supervised,
        "locked" => Autonomy::Locked,
    }
    /// An agent that is ready made.
    PresetWord: Preset {
        "coder" => Preset::Coder, "researcher" => Preset::Researcher, "reviewer" => Preset::Reviewer,
        "locked" => Preset::Locked,
    }
    /// How far an agent goes at most.
    SeniorityWord: Seniority {
        "junior" => Seniority::Junior, "mid" => Seniority::Mid, "senior" => Seniority::Senior,
        "lead" => Seniority::Lead,
    }
    /// What a tool works on.
    CategoryWord: Category {
        "file_system" => Category::FileSystem, "code_execution" => Category::CodeExecution,
        "version_control" => Category::VersionControl, "git" => Category::VersionControl, "web" => Category::Web,
        "database" => Category::Database, "terminal" => Category::Terminal, "design" => Category::Design,
        "communication" => Category::Communication, "analytics" => Category::Analytics,
        "deployment" => Category::Deployment, "memory" => Category::Memory, "mcp" => Category::Mcp,
        "other" => Category::Other,
    }
    /// Where files may be touched.
    FileSystemWord: FileSystem {
        "workspace_only" => FileSystem::WorkspaceOnly, "project_directory" => FileSystem::ProjectDirectory,
        "full" => FileSystem::Full,
    }
    /// Where code may run: there is no other way.
    CodeExecutionWord: &'static str { "containerized" => "containerized" }
    /// Whom a call may reach.
    NetworkWord: Network {
        "none" => Network::None, "allowlist_only" => Network::AllowlistOnly, "open" => Network::Open,
    }
    /// What may be done to repositories.
    GitWord: Git {
        "local_only" => Git::LocalOnly, "read_and_branch" => Git::ReadAndBranch, "full" => Git::Full,
    }
    /// Which commands may be run.
    TerminalWord: Terminal {
        "none" => Terminal::None, "restricted_commands" => Terminal::RestrictedCommands, "full" => Terminal::Full,
    }
    /// What runs a call.
    BackendWord: Backend {
        "native" => Backend::Native, "subprocess" => Backend::Subprocess, "docker" => Backend::Docker,
        "kubernetes" => Backend::Kubernetes, "k8s" => Backend::Kubernetes, "microvm" => Backend::Microvm,
        "remote" => Backend::Remote, "deny" => Backend::Deny,
    }
    /// Which network a container gets. `bridge` without allowed hosts reaches nothing.
    ContainerNetworkWord: &'static str { "none" => "none", "bridge" => "bridge" }
    /// How a workspace is mounted in a container.
    MountModeWord: &'static str { "ro" => "ro", "rw" => "rw" }
    /// Whom a container or a worker is kept for.
    LifecycleWord: KeptFor {
        "per-call" => KeptFor::Call, "per-task" => KeptFor::Task, "per-agent" => KeptFor::Agent,
    }
    /// What pods may reach besides the gate.
    PodNetworkWord: &'static str { "deny-all" => "deny-all" }
    /// How pages are opened.
    BrowserModeWord: &'static str { "simple" => "simple", "full" => "full", "playwright" => "full" }
    /// What an approval rule says.
    RuleActionWord: RuleAction {
        "approve" => RuleAction::Approve, "deny" => RuleAction::Deny, "prompt" => RuleAction::Prompt,
        "budget" => RuleAction::Budget,
    }
    /// What a rule in Cedar says about an example.
    ExpectWord: Expect {
        "forbid" => Expect::Forbid, "ask" => Expect::Ask, "nothing" => Expect::Nothing,
    }
    /// What becomes of calls when a new policy cannot be had.
    OnBadReloadWord: OnBadReload { "refuse" => OnBadReload::Refuse, "keep" => OnBadReload::Keep }
    /// When a hook is heard.
    HookTimeWord: HookTime {
        "before" => HookTime::Before, "after" => HookTime::After, "both" => HookTime::Both,
    }
    /// What a server's tools are called.
    PrefixWord: NamePrefix { "always" => NamePrefix::Always, "auto" => NamePrefix::Auto }
    /// What of a server is passed on besides its tools.
    PassedWord: Passed {
        "resources" => Passed::Resources, "prompts" => Passed::Prompts, "media" => Passed::Media,
        "logging" => Passed::Logging, "elicitation" => Passed::Elicitation, "sampling" => Passed::Sampling,
        "roots" => Passed::Roots,
    }
    /// Which revision is spoken with a server.
    EraWord: Era { "2025-11-25" => Era::Sessions, "2026-07-28" => Era::Stateless }
    /// By which way the gate signs in to a server.
    GrantWord: SignInGrant {
        "authorization_code" => SignInGrant::AuthorizationCode,
        "client_credentials" => SignInGrant::ClientCredentials,
    }
    /// What a server may do in a workspace.
    WorkspaceWord: WorkspaceAccess {
        "none" => WorkspaceAccess::None, "read" => WorkspaceAccess::Read, "write" => WorkspaceAccess::Write,
    }
    /// How often a budget begins anew.
    PeriodWord: Period {
        "daily" => Period::Daily, "weekly" => Period::Weekly, "monthly" => Period::Monthly,
    }
    /// Who has a budget of its own.
    PerWord: Per { "all" => Per::All, "agent" => Per::Agent, "task" => Per::Task }
    /// What becomes of calls beyond a budget.
    OverWord: Over { "ask" => Over::Ask, "deny" => Over::Deny }
    /// How trust grows.
    StrategyWord: Strategy {
        "disabled" => Strategy::Disabled, "weighted" => Strategy::Weighted,
        "per_category" => Strategy::PerCategory, "milestone" => Strategy::Milestone,
    }
}

/// One value for each category that is named. A category named twice, once in another system's word, is refused.
#[derive(Debug)]
pub(crate) struct ByCategory<V>(BTreeMap<Category, V>);

impl<V> ByCategory<V> {
    /// What was given for a category.
    pub(crate) fn of(&self, category: Category) -> Option<&V> {
        self.0.get(&category)
    }

    /// All of it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Category, &V)> {
        self.0.iter().map(|(category, value)| (*category, value))
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for ByCategory<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByCategory<V>, D::Error> {
        deserializer.deserialize_map(ByCategoryVisitor(PhantomData))
    }
}

struct ByCategoryVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for ByCategoryVisitor<V> {
    type Value = ByCategory<V>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("categories and values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ByCategory<V>, A::Error> {
        let mut values = BTreeMap::new();
        while let Some((category, value)) = map.next_entry::<CategoryWord, V>()? {
            if values.insert(category.0, value).is_some() {
                return Err(A::Error::duplicate_field(category.as_str()));
            }
        }
        Ok(ByCategory(values))
    }
}

impl<V: Serialize> Serialize for ByCategory<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<V: JsonSchema> JsonSchema for ByCategory<V> {
    fn schema_name() -> Cow<'static, str> {
        format!("ByCategory_of_{}", V::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<V>();
        json_schema!({
            "type": "object",
            "propertyNames": { "enum": CategoryWord::WORDS },
            "additionalProperties": value,
        })
    }
}
