//! The programs that start others, and how the words of each say which: all of them in this one table.
//!
//! What a file says is not looked at: a script, a Makefile, the settings of a repository. What the words say is.

/// How the words of a program say what it starts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// By a name, behind so many words that are no options.
    Behind(usize),
    /// The same behind one of these words.
    After(&'static [&'static str], usize),
    /// By a name that follows one of these options.
    Marked(&'static [&'static str]),
    /// As `env` does: by a name, or by a text that is taken apart into words.
    Split,
    /// By a name, with more words that come from elsewhere.
    Fed,
    /// All words are a text for a shell.
    Text,
    /// A shell: a text behind `-c`, a file, or what it reads.
    Shell,
    /// Code behind one of these options, a file, or what it reads. The letters are of options that have a value.
    Code(&'static [&'static str], &'static str),
    /// With one of these options it may start anything.
    Told(&'static [&'static str]),
    /// The same with letters that are options without a dash, in its first word.
    Bundled(&'static str),
    /// Words such as `CC=x` may name what it starts.
    Assigned,
    /// It may start anything.
    Anything,
    /// Code of awk's.
    Awk,
    /// Code of sed's.
    Sed,
    /// As git does.
    Git,
}

use Way::{
    After, Anything, Assigned, Awk, Behind, Bundled, Code, Fed, Git, Marked, Sed, Shell, Split, Text, Told,
};

type Row = (&'static [&'static str], &'static [Way]);

const TABLE: &[Row] = &[
    // What runs the program that its words name.
    (
        &[
            "busybox",
            "toybox",
            "command",
            "builtin",
            "doas",
            "eatmydata",
            "exec",
            "fakeroot",
            "ionice",
            "ltrace",
            "nice",
            "nohup",
            "prlimit",
            "setpriv",
            "setsid",
            "stdbuf",
            "strace",
            "sudo",
            "time",
            "unshare",
            "valgrind",
            "choom",
            "chronic",
            "ifne",
            "numactl",
            "unbuffer",
            "rlwrap",
            "xvfb-run",
            "dbus-run-session",
            "ssh-agent",
            "systemd-run",
            "catchsegv",
            "ccache",
            "sccache",
            "distcc",
            "setlock",
            "chpst",
            "bwrap",
            "firejail",
            "proot",
            "torify",
            "torsocks",
            "linux32",
            "linux64",
            "i386",
            "i686",
            "x86_64",
            "uname26",
            "uvx",
            "bunx",
            "pnpx",
            "entr",
            "nsenter",
            "cgexec",
            "kcov",
            "bear",
            "cpulimit",
            "pkexec",
            "uclampset",
        ],
        &[Behind(0)],
    ),
    (
        &["chroot", "chrt", "faketime", "perf", "setarch", "taskset", "timeout", "envdir", "lckdo"],
        &[Behind(1)],
    ),
    (&["env"], &[Split]),
    (&["flock"], &[Behind(1), Told(&["-c", "--command"])]),
    (&["xargs"], &[Fed]),
    (&["npx"], &[Behind(0), Told(&["-c", "--call", "--shell", "--script-shell", "--node-arg"])]),
    (
        &["npm"],
        &[
            After(&["exec", "x", "explore"], 0),
            Told(&["-c", "--call", "--shell", "--script-shell", "--git", "--editor", "--viewer"]),
        ],
    ),
    (
        &["pnpm", "yarn", "bun"],
        &[
            After(&["exec", "x", "dlx"], 0),
            Told(&["-c", "-e", "-p", "--eval", "--print", "--shell-mode", "--script-shell"]),
        ],
    ),
    (&["uv", "poetry", "pdm", "hatch", "pipenv", "pipx", "rye"], &[After(&["run", "tool"], 0)]),
    (
        &["bundle", "opam", "cabal", "stack", "composer", "gem", "direnv", "mise", "asdf"],
        &[After(&["exec", "x"], 0), Told(&["-e"])],
    ),
    (&["rustup"], &[After(&["run"], 1)]),
    (&["meson"], &[After(&["devenv"], 0), Assigned, Told(&["-D"])]),
    (&["find"], &[Marked(&["-exec", "-execdir", "-ok", "-okdir"])]),
    (&["fd", "fdfind"], &[Marked(&["-x", "-X", "--exec", "--exec-batch"])]),
    (&["start-stop-daemon"], &[Anything]),
    // What runs a text.
    (&["sh", "bash", "rbash", "dash", "ash", "hush", "zsh", "ksh", "mksh", "lksh", "yash", "posh"], &[Shell]),
    (&["watch", "pee", "mispipe", "hyperfine"], &[Text]),
    (
        &[
            ".",
            "source",
            "eval",
            "fish",
            "csh",
            "tcsh",
            "nu",
            "pwsh",
            "xonsh",
            "elvish",
            "ipython",
            "irb",
            "iex",
            "erl",
            "ghci",
            "jshell",
            "deno",
            "script",
            "scriptreplay",
            "parallel",
            "su",
            "sg",
            "runuser",
            "capsh",
            "gdb",
            "lldb",
            "rr",
            "expect",
            "socat",
            "tmux",
            "screen",
            "at",
            "batch",
            "run-parts",
            "vi",
            "vim",
            "nvim",
            "view",
            "ex",
            "ed",
            "red",
            "emacs",
            "nano",
            "dc",
            "sqlite",
            "psql",
            "mysql",
            "mariadb",
            "ssh",
            "sftp",
            "scp",
            "watchexec",
            "m4",
            "sbt",
            "docker",
            "podman",
            "nix",
            "nix-shell",
            "guix",
        ],
        &[Anything],
    ),
    // What runs code of its own kind.
    (&["python", "pypy"], &[Code(&["-c", "-i"], "WXQ")]),
    (&["perl"], &[Code(&["-e", "-E", "-d"], "I")]),
    (&["ruby", "jruby"], &[Code(&["-e"], "IrC")]),
    (
        &["node", "nodejs", "tsx", "ts-node"],
        &[Code(
            &[
                "-e",
                "-p",
                "-i",
                "--eval",
                "--print",
                "--interactive",
                "--import",
                "--loader",
                "--experimental-loader",
            ],
            "rC",
        )],
    ),
    (
        &["php"],
        &[Code(
            &[
                "-a",
                "-r",
                "-B",
                "-R",
                "-E",
                "-d",
                "--run",
                "--process-code",
                "--process-begin",
                "--process-end",
                "--define",
            ],
            "czt",
        )],
    ),
    (&["lua", "luajit", "texlua"], &[Code(&["-e", "-i"], "l")]),
    (&["julia"], &[Code(&["-e", "-E", "-i", "--eval", "--print"], "LJpt")]),
    (&["Rscript", "R", "r", "littler"], &[Code(&["-e"], "")]),
    (&["elixir", "escript"], &[Code(&["-e", "--eval", "-eval", "-run", "-s", "--rpc-eval"], "r")]),
    (&["mix"], &[After(&["cmd"], 0), Told(&["-e", "--eval"])]),
    (
        &[
            "ocaml",
            "tclsh",
            "wish",
            "guile",
            "racket",
            "sbcl",
            "clisp",
            "swift",
            "scala",
            "groovy",
            "osascript",
        ],
        &[Code(&["-e", "-c", "-E", "--eval"], "")],
    ),
    (&["awk", "gawk", "mawk", "nawk", "original-awk", "goawk"], &[Awk, Told(&["-l", "--load"])]),
    (&["sed", "gsed"], &[Sed]),
    // What starts others if an option says so.
    (&["git"], &[Git]),
    (&["sort", "gsort"], &[Told(&["--compress-program"])]),
    (&["split", "csplit"], &[Told(&["--filter"])]),
    (&["install"], &[Told(&["--strip-program"])]),
    (&["rg"], &[Told(&["--pre", "--hostname-bin"])]),
    (&["bat", "batcat", "ag", "ack", "delta"], &[Told(&["--pager"])]),
    (
        &["tar", "gtar", "bsdtar"],
        &[
            Told(&[
                "-I",
                "-F",
                "--checkpoint-action",
                "--info-script",
                "--new-volume-script",
                "--rmt-command",
                "--rsh-command",
                "--to-command",
                "--use-compress-program",
            ]),
            Bundled("IF"),
        ],
    ),
    (&["cpio"], &[Told(&["--rsh-command", "--rmt-command"])]),
    (&["rsync"], &[Told(&["-e", "--rsh", "--rsync-path"])]),
    (&["zip"], &[Told(&["-T", "--unzip-command"])]),
    (&["man"], &[Told(&["-P", "-H", "--pager", "--html", "--preprocessor"])]),
    (&["less", "more", "most"], &[Told(&["-k", "--lesskey-src", "--lesskey-context"])]),
    (&["wget"], &[Told(&["-e", "--execute", "--use-askpass"])]),
    // What builds.
    (&["make", "gmake", "bmake", "remake"], &[Assigned, Told(&["-E", "--eval"])]),
    (&["just"], &[Assigned, Told(&["-c", "--command", "--set", "--shell", "--shell-arg", "--chooser"])]),
    (
        &["task", "rake", "ant", "scons"],
        &[Assigned, Told(&["-e", "-E", "-p", "--execute", "--execute-print", "--execute-continue", "-D"])],
    ),
    (&["mvn", "mvnw", "gradle", "gradlew"], &[Told(&["-D"])]),
    (&["cargo"], &[Told(&["--config"])]),
    (
        &["rustc", "rustdoc"],
        &[Told(&["-C", "-Z", "--codegen", "--runtool", "--test-runtool", "--test-builder"])],
    ),
    (&["go"], &[Told(&["-exec", "-toolexec", "-vettool"])]),
    (
        &["cc", "gcc", "g++", "c++", "cpp", "clang", "clang++", "nvcc", "gfortran"],
        &[Told(&["-wrapper", "-specs", "-fplugin", "-ccbin", "-fuse-ld", "-ld-path"])],
    ),
    (&["cmake"], &[Told(&["-E", "-D"])]),
    (&["ctest"], &[Told(&["--build-and-test", "--build-makeprogram", "--test-command", "--overwrite"])]),
    (&["ghc", "runghc"], &[Told(&["-e"])]),
    (&["bazel"], &[Told(&["--run_under", "--script_path"])]),
    (&["tox", "nox"], &[Told(&["-x", "--override"])]),
];

/// How a program of this name starts others, if it is known to.
pub(super) fn ways_of(program: &str) -> &'static [Way] {
    let name = last_name(program);
    if is_loader(name) {
        return &[Behind(0)];
    }
    // `python3.12` is `python`.
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    let row = |wanted: &str| TABLE.iter().find(|(names, _)| names.contains(&wanted));
    let row = row(name).or_else(|| row(stem).filter(|_| stem != name));
    row.map_or(&[], |(_, ways)| ways)
}

/// What loads programs with their libraries, and runs the one that its words name.
fn is_loader(name: &str) -> bool {
    name.starts_with("ld-") || name.starts_with("ld.so") || name.starts_with("ld64.so")
}

pub(super) fn last_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_has_two_rows() {
        let mut names: Vec<&str> = TABLE.iter().flat_map(|(names, _)| *names).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
