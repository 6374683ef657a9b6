//! Names of what the host runs or obeys by itself: when a person logs in, opens a directory, or starts another agent.
//!
//! Not what a project's own build or tests run: whoever starts those starts what stands in the workspace, and knows it.
//! Nor prose that steers agents (`AGENTS.md`): it is text like any other that they read.

/// Protected by default, besides git's own, by family.
pub(crate) const FAMILIES: [&[&str]; 8] =
    [TOOLGATE, SHELLS, SESSIONS, EDITORS, AGENTS, HOOKS, DIRECTORIES, TOOLS];

const TOOLGATE: &[&str] = &["toolgate.yaml", "toolgate.json"];

/// Shells, when they begin and when they end.
const SHELLS: &[&str] = &[
    ".profile",
    ".bashrc",
    ".bashrc.d",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".xonshrc",
    ".config/fish",
    ".config/zsh",
    ".config/nushell",
    ".config/powershell",
    ".config/xonsh",
    ".config/elvish",
];

/// A person's session: what it starts, and its terminals.
const SESSIONS: &[&str] = &[
    ".ssh",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".pam_environment",
    ".config/autostart",
    ".config/environment.d",
    ".config/systemd",
    ".config/plasma-workspace",
    ".local/share/systemd",
    ".local/share/dbus-1",
    ".inputrc",
    ".tmux.conf",
    ".config/tmux",
    ".screenrc",
    ".lessfilter",
    ".mailcap",
];

const EDITORS: &[&str] = &[
    ".vscode",
    "*.code-workspace",
    ".idea",
    ".ideavimrc",
    ".fleet",
    ".vs",
    ".zed",
    ".config/zed",
    ".devcontainer",
    ".devcontainer.json",
    ".gitpod.yml",
    "*.sublime-project",
    ".exrc",
    ".vim",
    ".vimrc",
    ".gvimrc",
    ".nvimrc",
    ".nvim.lua",
    ".nvim",
    ".config/nvim",
    ".helix",
    ".config/helix",
    ".emacs",
    ".emacs.d",
    ".dir-locals.el",
    ".dir-locals-2.el",
    ".config/emacs",
];

/// Other agents' settings: the servers and commands that they start without asking.
const AGENTS: &[&str] = &[
    ".mcp.json",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".cursor",
    ".windsurf",
    ".kiro",
    ".continue",
    ".roo",
    ".cline",
    ".amazonq",
    ".junie",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".aider.conf.yml",
];

/// What git runs, besides what stands in its own directory.
const HOOKS: &[&str] = &[
    ".gitconfig",
    ".config/git",
    ".husky",
    ".githooks",
    ".lefthook",
    "lefthook.y*ml",
    "lefthook.toml",
    "lefthook.json",
    "lefthook-local.*",
    ".lefthook.*",
    ".lefthook-local.*",
    ".pre-commit-config.y*ml",
    ".overcommit.yml",
    ".hgrc",
    ".hg/hgrc",
];

/// What runs when a shell enters a directory.
const DIRECTORIES: &[&str] = &[
    ".envrc",
    ".autoenv",
    ".autoenv.zsh",
    ".mise",
    "mise.toml",
    ".mise.toml",
    "mise.local.toml",
    ".mise.local.toml",
    ".config/mise",
    ".rtx.toml",
];

/// What other programs read before they do what they were started for, wherever they are.
const TOOLS: &[&str] = &[
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".pypirc",
    ".cargo/config",
    ".cargo/config.toml",
    ".curlrc",
    ".wgetrc",
    ".gdbinit",
    ".lldbinit",
    ".pdbrc",
    ".irbrc",
    ".pryrc",
    ".rprofile",
    ".ghci",
    ".psqlrc",
    ".sqliterc",
];
