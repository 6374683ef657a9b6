//! Ways to make the host run something, as data: what a tool leaves for git, shells and editors to obey.

/// A way to make the host run something, as steps beneath the granted directory. Each is `write:PATH:TEXT`,
/// `move:FROM:TO`, `link:TARGET:PATH`, `mode:OCTAL:PATH`, `remove:PATH`, `take:PATH:COUNT` for as many files named after
/// one, or `renew:PATH` for a directory in its place, with its inode number if that can be had.
pub(crate) struct Plant {
    pub(crate) id: &'static str,
    pub(crate) promise: &'static str,
    /// What is there before, by the host's own hand.
    pub(crate) before: &'static [&'static str],
    /// What the attacker does.
    pub(crate) steps: &'static [&'static str],
    /// The file that must not end up with `evil` in it.
    pub(crate) target: &'static str,
    /// Whether the attempt is only seen afterwards, and what it left moved away.
    pub(crate) quarantined: bool,
    /// What is granted, of the place of this attempt.
    pub(crate) granted: &'static str,
}

const NOTHING: Plant = Plant {
    id: "new-protected-name",
    promise: "",
    before: &[],
    steps: &[],
    target: "",
    quarantined: true,
    granted: ".",
};

const REPOSITORY: &[&str] =
    &["write:.git/HEAD:ref: refs/heads/main", "write:.git/config:[core]", "write:.git/hooks/x.sample:x"];

const WRITTEN: Plant = Plant { before: REPOSITORY, quarantined: false, ..NOTHING };

pub(crate) const PLANTS: &[Plant] = &[
    Plant {
        id: "git-hook",
        promise: "a git hook cannot be written",
        steps: &["write:.git/hooks/pre-commit:evil"],
        target: ".git/hooks/pre-commit",
        ..WRITTEN
    },
    Plant {
        id: "git-config",
        promise: "the git configuration cannot be written or replaced",
        steps: &[
            "write:.git/config:evil",
            "write:.git/config.lock:evil",
            "move:.git/config.lock:.git/config",
        ],
        target: ".git/config",
        ..WRITTEN
    },
    Plant {
        id: "git-moved",
        promise: "the git directory cannot be moved away and made anew",
        steps: &["move:.git:x", "write:.git/hooks/pre-commit:evil", "write:.git/config:evil"],
        target: ".git/hooks/pre-commit",
        ..WRITTEN
    },
    Plant {
        id: "git-parent-moved",
        promise: "a repository cannot be moved away and made anew under its old name",
        before: &[
            "write:project/.git/HEAD:x",
            "write:project/.git/config:x",
            "write:project/.git/hooks/x.sample:x",
        ],
        steps: &["move:project:old", "write:project/.git/hooks/pre-commit:evil"],
        target: "project/.git/hooks/pre-commit",
        ..NOTHING
    },
    Plant {
        id: "git-pointer",
        promise: "the pointer of a worktree to its repository cannot be written or replaced",
        before: &["write:.git:gitdir: /elsewhere"],
        steps: &["write:.git:evil", "write:new:evil", "move:new:.git"],
        target: ".git",
        ..WRITTEN
    },
    Plant {
        id: "git-submodule",
        promise: "hooks and configuration of a submodule cannot be written",
        before: &[
            "write:.git/HEAD:x",
            "write:.git/modules/lib/HEAD:x",
            "write:.git/modules/lib/config:x",
            "write:.git/modules/lib/hooks/x.sample:x",
        ],
        steps: &["write:.git/modules/lib/hooks/post-checkout:evil", "write:.git/modules/lib/config:evil"],
        target: ".git/modules/lib/config",
        ..WRITTEN
    },
    Plant {
        id: "submodule-with-a-name-of-gits",
        promise: "the settings of a submodule cannot be written, whatever its name",
        before: &[
            "write:.git/HEAD:x",
            "write:.git/modules/objects/HEAD:x",
            "write:.git/modules/objects/config:x",
        ],
        steps: &["write:.git/modules/objects/config:evil"],
        target: ".git/modules/objects/config",
        ..WRITTEN
    },
    Plant {
        id: "submodule-in-a-folder",
        promise: "the settings of a submodule cannot be written when its name has several parts",
        before: &[
            "write:.git/HEAD:x",
            "write:.git/modules/a/refs/HEAD:x",
            "write:.git/modules/a/refs/config:x",
        ],
        steps: &["write:.git/modules/a/refs/config:evil"],
        target: ".git/modules/a/refs/config",
        ..WRITTEN
    },
    Plant {
        id: "git-commondir",
        promise: "a worktree cannot be told to take its settings from elsewhere",
        before: &["write:.git/HEAD:x", "write:.git/config:x", "write:.git/worktrees/w/commondir:../.."],
        steps: &["write:.git/worktrees/w/commondir:evil", "write:.git/worktrees/w/config.worktree:evil"],
        target: ".git/worktrees/w/commondir",
        ..WRITTEN
    },
    Plant {
        id: "linked-hooks",
        promise: "hooks that are a link cannot be replaced by hooks",
        before: &["write:.git/HEAD:x", "write:shared/hooks/x.sample:x", "link:../shared/hooks:.git/hooks"],
        steps: &["remove:.git/hooks", "write:.git/hooks/pre-commit:evil"],
        target: ".git/hooks/pre-commit",
        ..WRITTEN
    },
    Plant {
        id: "reused-inode",
        promise: "hooks that are a link cannot be replaced by hooks with the number of the link",
        before: &["write:.git/HEAD:x", "write:shared/hooks/x.sample:x", "link:../shared/hooks:.git/hooks"],
        steps: &["renew:.git/hooks:", "write:.git/hooks/pre-commit:evil"],
        target: ".git/hooks/pre-commit",
        ..NOTHING
    },
    Plant {
        id: "linked-hooks-target",
        promise: "hooks that are reached by a link cannot be written where they are",
        before: &["write:.git/HEAD:x", "write:shared/hooks/x.sample:x", "link:../shared/hooks:.git/hooks"],
        steps: &["write:shared/hooks/pre-commit:evil"],
        target: ".git/hooks/pre-commit",
        ..WRITTEN
    },
    Plant {
        id: "granted-git-directory",
        promise: "hooks cannot be written when the git directory itself is granted",
        steps: &["write:hooks/pre-commit:evil", "write:config:evil"],
        target: "hooks/pre-commit",
        granted: ".git",
        ..WRITTEN
    },
    Plant {
        id: "protected-file",
        promise: "a protected file cannot be written or replaced",
        before: &["write:toolgate.yaml:x"],
        steps: &[
            "write:toolgate.yaml:evil",
            "remove:toolgate.yaml",
            "write:new:evil",
            "move:new:toolgate.yaml",
        ],
        target: "toolgate.yaml",
        ..WRITTEN
    },
    Plant {
        id: "protected-directory",
        promise: "nothing in a protected directory can be written",
        before: &["write:.vscode/settings.json:x"],
        steps: &["write:.vscode/tasks.json:evil", "move:.vscode:x", "write:.vscode/tasks.json:evil"],
        target: ".vscode/tasks.json",
        ..WRITTEN
    },
    Plant {
        promise: "a new repository with a hook is disarmed at any depth",
        steps: &["write:a/b/c/.git/HEAD:x", "write:a/b/c/.git/hooks/post-checkout:evil"],
        target: "a/b/c/.git/hooks/post-checkout",
        ..NOTHING
    },
    Plant {
        promise: "a new repository with settings that run something is disarmed",
        steps: &["write:a/.git/HEAD:x", "write:a/.git/config:[core]\n\tfsmonitor = evil\n"],
        target: "a/.git/config",
        ..NOTHING
    },
    Plant {
        promise: "a new repository that takes its settings from elsewhere is disarmed",
        steps: &["write:a/.git/HEAD:x", "write:a/.git/commondir:../evil"],
        target: "a/.git/commondir",
        ..NOTHING
    },
    Plant {
        promise: "a new pointer to a repository elsewhere is disarmed",
        steps: &["write:a/.git:gitdir: ../evil"],
        target: "a/.git",
        ..NOTHING
    },
    Plant {
        promise: "a new repository that is a link is disarmed",
        steps: &["write:evil/config:evil", "link:../evil:a/.git"],
        target: "a/.git/config",
        ..NOTHING
    },
    Plant {
        promise: "a new repository in capitals is disarmed",
        steps: &["write:a/.GIT/hooks/post-checkout:evil"],
        target: "a/.GIT/hooks/post-checkout",
        ..NOTHING
    },
    Plant {
        promise: "a first hook in a repository without hooks is disarmed",
        before: &["write:.git/HEAD:x", "write:.git/config:x"],
        steps: &["write:.git/hooks/pre-commit:evil"],
        target: ".git/hooks/pre-commit",
        ..NOTHING
    },
    Plant {
        id: "planted-bare-repository",
        promise: "a new directory that git takes for a repository is disarmed whatever its name",
        steps: &[
            "write:a/HEAD:ref: refs/heads/main",
            "write:a/objects/x:",
            "write:a/refs/x:",
            "write:a/config:[core]\n\tfsmonitor = evil\n",
        ],
        target: "a/config",
        ..NOTHING
    },
    Plant {
        id: "planted-bare-repository-hooks",
        promise: "hooks are disarmed when what was granted itself becomes a repository",
        steps: &["write:HEAD:x", "write:objects:x", "write:refs:x", "write:hooks/post-checkout:evil"],
        target: "hooks/post-checkout",
        ..NOTHING
    },
    Plant {
        id: "planted-bare-commondir",
        promise: "a new directory that git takes its settings from elsewhere for is disarmed",
        steps: &["write:a/HEAD:x", "write:a/commondir:../evil"],
        target: "a/commondir",
        ..NOTHING
    },
    Plant {
        id: "bare-repository-hook",
        promise: "hooks and configuration of a bare repository cannot be written",
        before: &[
            "write:r/HEAD:x",
            "write:r/objects/x:",
            "write:r/refs/x:",
            "write:r/config:x",
            "write:r/hooks/x.sample:x",
        ],
        steps: &["write:r/hooks/post-receive:evil", "move:r:old", "write:r/config:evil"],
        target: "r/config",
        ..WRITTEN
    },
    Plant {
        promise: "a file that people's programs obey is disarmed where there was none",
        steps: &["write:.vscode/tasks.json:evil"],
        target: ".vscode/tasks.json",
        ..NOTHING
    },
    Plant {
        promise: "a shell's start file is disarmed where there was none",
        steps: &["write:home/.bashrc:evil"],
        target: "home/.bashrc",
        ..NOTHING
    },
    Plant {
        id: "planted-credentials",
        promise: "a login that was not there before is disarmed",
        steps: &["write:home/.ssh/authorized_keys:evil"],
        target: "home/.ssh/authorized_keys",
        ..NOTHING
    },
    Plant {
        id: "unlistable-directory",
        promise: "a new repository is disarmed in a directory that cannot be listed",
        steps: &["write:a/.git/hooks/post-checkout:evil", "mode:311:a"],
        target: "a/.git/hooks/post-checkout",
        ..NOTHING
    },
    Plant {
        id: "unlistable-grant",
        promise: "a new repository is disarmed when what was granted can no longer be listed",
        steps: &["write:.git/hooks/post-checkout:evil", "mode:311:."],
        target: ".git/hooks/post-checkout",
        ..NOTHING
    },
    Plant {
        id: "closed-directory",
        promise: "a hook is disarmed in a directory that cannot be changed",
        steps: &["write:a/.git/hooks/post-checkout:evil", "mode:555:a/.git/hooks"],
        target: "a/.git/hooks/post-checkout",
        ..NOTHING
    },
    Plant {
        id: "taken-names",
        promise: "a start file is disarmed when many names to move it to are taken",
        steps: &["write:home/.bashrc:evil", "take:home/.bashrc.quarantined:300"],
        target: "home/.bashrc",
        ..NOTHING
    },
    Plant {
        id: "hidden-shelter",
        promise: "a new repository is disarmed in a directory with a hidden name",
        steps: &["write:.env.d/a/.git/hooks/post-checkout:evil"],
        target: ".env.d/a/.git/hooks/post-checkout",
        ..NOTHING
    },
];
