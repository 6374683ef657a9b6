//! What kind of thing a tool does, in the few words that policy keys off.

use serde::{Deserialize, Serialize};

/// An enum whose variants have one name each, in configuration, on the wire and in the store.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Reads the name used in configuration and on the wire.
            pub fn parse(text: &str) -> Option<$name> {
                match text {
                    $($text => Some($name::$variant),)+
                    _ => None,
                }
            }

            /// The name used in configuration and on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text),+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}

words!(
    /// How dangerous a call is, from harmless to the worst.
    SafetyClass {
        /// Looks, changes nothing.
        Read = "read",
        /// Changes something.
        Write = "write",
        /// Talks to others.
        Network = "network",
        /// Spends money.
        Financial = "financial",
        /// Can change what guards everything else.
        Privileged = "privileged",
    }
);

impl SafetyClass {
    /// Whether money, or the guard itself, is at stake: such calls are approved one by one, by people who are there.
    pub fn is_grave(self) -> bool {
        self >= SafetyClass::Financial
    }
}

words!(
    /// What leaves the machine.
    EgressClass {
        /// Nothing.
        None = "none",
        /// Questions.
        ReadOnly = "read_only",
        /// Changes to the outside.
        Write = "write",
    }
);

words!(
    /// Whether a call may be taken for one made before.
    Idempotency {
        /// Always: the same call twice has one effect.
        Required = "required",
        /// If the caller gives a key.
        Optional = "optional",
        /// Never.
        None = "none",
    }
);

words!(
    /// What a call costs, roughly.
    CostTier {
        /// Nothing worth counting.
        Free = "free",
        /// A little.
        Low = "low",
        /// Some.
        Medium = "medium",
        /// Much.
        High = "high",
    }
);

words!(
    /// What a tool works on.
    Category {
        /// Files.
        FileSystem = "file_system",
        /// Code that is run.
        CodeExecution = "code_execution",
        /// Repositories.
        VersionControl = "version_control",
        /// Other hosts.
        Web = "web",
        /// Databases.
        Database = "database",
        /// Commands.
        Terminal = "terminal",
        /// Pictures.
        Design = "design",
        /// Messages to people.
        Communication = "communication",
        /// Numbers.
        Analytics = "analytics",
        /// Software that goes live.
        Deployment = "deployment",
        /// What an agent keeps.
        Memory = "memory",
        /// Other people's tools.
        Mcp = "mcp",
        /// None of these.
        Other = "other",
    }
);

words!(
    /// How much of the world an agent may touch.
    Level {
        /// An isolated workspace.
        Sandboxed = "sandboxed",
        /// And limited access to the outside.
        Restricted = "restricted",
        /// Normal development.
        Standard = "standard",
        /// Everything.
        Elevated = "elevated",
        /// What the agent's own configuration lists, and nothing else.
        Custom = "custom",
    }
);

words!(
    /// How often an agent has to ask, from never more than it must to always.
    Autonomy {
        /// Asks only where class or rule demand it.
        Full = "full",
        /// Asks for what cannot be undone.
        Semi = "semi",
        /// Asks for every change.
        Supervised = "supervised",
        /// Changes nothing.
        Locked = "locked",
    }
);

words!(
    /// Whether a tool may be called.
    ToolStatus {
        /// It may.
        Active = "active",
        /// Switched off.
        Disabled = "disabled",
        /// It may, but something better is there.
        Deprecated = "deprecated",
        /// Its definition has changed; people must look at it first.
        Suspended = "suspended",
    }
);

words!(
    /// Where a tool's definition comes from, and who has looked at it.
    TrustLabel {
        /// Nobody has.
        Untrusted = "untrusted",
        /// Imported by configuration.
        Imported = "imported",
        /// An operator has pinned its hash.
        Pinned = "pinned",
        /// Ours.
        Internal = "internal",
    }
);

words!(
    /// What a command may do, whatever the command is.
    Profile {
        /// Look.
        Inspect = "inspect",
        /// Make: write in the workspace.
        Build = "build",
        /// Change: the same walls; what differs is which commands may ask for it.
        Mutate = "mutate",
        /// Talk to granted hosts.
        Networked = "networked",
    }
);

words!(
    /// How far a yes reaches.
    Scope {
        /// The very call that was asked about.
        Once = "once",
        /// The same call again, for the same task.
        Task = "task",
        /// The same call again, by the same agent.
        Agent = "agent",
        /// Every call of that tool and that kind of action, by the same agent.
        Type = "type",
    }
);
