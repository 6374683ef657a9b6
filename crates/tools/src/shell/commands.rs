//! Which commands each profile has. The walls are what holds a command; this list is the second layer.

use contract::{Profile, Reason};

use crate::path::shown;

/// Commands that look. Some can start others or write files; behind these walls that leads nowhere.
const INSPECT: &[&str] = &[
    "ag",
    "awk",
    "b2sum",
    "b3sum",
    "base64",
    "basename",
    "bat",
    "bc",
    "cat",
    "cksum",
    "cmp",
    "column",
    "comm",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "env",
    "expand",
    "expr",
    "factor",
    "false",
    "fd",
    "fgrep",
    "file",
    "find",
    "fmt",
    "fold",
    "free",
    "gawk",
    "getconf",
    "git",
    "grep",
    "groups",
    "head",
    "hexdump",
    "hostname",
    "iconv",
    "id",
    "join",
    "jq",
    "less",
    "locale",
    "ls",
    "lsblk",
    "mawk",
    "md5sum",
    "more",
    "nl",
    "nm",
    "nproc",
    "numfmt",
    "objdump",
    "od",
    "paste",
    "pr",
    "printenv",
    "printf",
    "ps",
    "pwd",
    "readelf",
    "readlink",
    "realpath",
    "rev",
    "rg",
    "sed",
    "seq",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "shuf",
    "size",
    "sleep",
    "sort",
    "split",
    "stat",
    "strings",
    "sum",
    "tac",
    "tail",
    "tee",
    "test",
    "time",
    "timeout",
    "tokei",
    "tr",
    "tree",
    "true",
    "tsort",
    "type",
    "uname",
    "unexpand",
    "uniq",
    "uptime",
    "vdir",
    "wc",
    "which",
    "who",
    "whoami",
    "xargs",
    "xxd",
    "yes",
    "yq",
    "zcat",
    "zgrep",
    "zless",
];

/// Commands that make things, and what runs people's own programs.
const BUILD: &[&str] = &[
    "ant",
    "ar",
    "as",
    "autoconf",
    "automake",
    "bash",
    "bazel",
    "black",
    "buf",
    "bun",
    "bundle",
    "c++",
    "cabal",
    "cargo",
    "cargo-clippy",
    "cargo-fmt",
    "cc",
    "ccache",
    "clang",
    "clang++",
    "clang-format",
    "clang-tidy",
    "cmake",
    "composer",
    "cpp",
    "ctest",
    "dash",
    "deno",
    "dotnet",
    "elixir",
    "erl",
    "eslint",
    "flake8",
    "flex",
    "bison",
    "g++",
    "gcc",
    "gem",
    "ghc",
    "go",
    "gofmt",
    "gradle",
    "gradlew",
    "java",
    "javac",
    "jar",
    "jest",
    "julia",
    "just",
    "kotlinc",
    "ld",
    "lua",
    "luac",
    "m4",
    "make",
    "meson",
    "mix",
    "mvn",
    "mvnw",
    "mypy",
    "ninja",
    "node",
    "npm",
    "npx",
    "nvcc",
    "ocaml",
    "opam",
    "patch",
    "perl",
    "php",
    "pip",
    "pip3",
    "pkg-config",
    "pnpm",
    "poetry",
    "prettier",
    "protoc",
    "pylint",
    "pytest",
    "python",
    "python3",
    "R",
    "ranlib",
    "rake",
    "rspec",
    "ruby",
    "ruff",
    "rustc",
    "rustdoc",
    "rustfmt",
    "rustup",
    "sbt",
    "scala",
    "sh",
    "shellcheck",
    "sqlite3",
    "strip",
    "swift",
    "task",
    "tox",
    "ts-node",
    "tsc",
    "tsx",
    "uv",
    "uvx",
    "vite",
    "vitest",
    "yarn",
    "zig",
    "zsh",
    "nextest",
    "strace",
];

/// Commands that change what is there.
const MUTATE: &[&str] = &[
    "bunzip2", "bzip2", "chmod", "cp", "dd", "gunzip", "gzip", "install", "link", "ln", "mkdir", "mkfifo",
    "mktemp", "mv", "rm", "rmdir", "rsync", "shred", "tar", "touch", "truncate", "unlink", "unxz", "unzip",
    "xz", "zip", "zstd",
];

/// Where the system keeps its programs.
const SYSTEM: [&str; 6] = ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// Why a command is not one of the profile's, if it is not. Whether that matters is for policy to say.
pub(crate) fn unlisted(command: &str, profile: Profile) -> Option<Reason> {
    let name = match command.rsplit_once('/') {
        None => command,
        // ATTACK(command-by-basename): `/tmp/x/ls` is not `ls`. Only the system's own directories lend their name.
        Some((directory, name)) if command.starts_with('/') => {
            if !SYSTEM.contains(&directory) {
                let hint =
                    "name the command without a path, or a program of the workspace by a relative path";
                return Some(not_allowed(command, profile).with_hint(hint));
            }
            name
        }
        // A program of the workspace.
        Some(_) if profile == Profile::Inspect => {
            let hint = "programs of the workspace are run with the profile `build`";
            return Some(not_allowed(command, profile).with_hint(hint));
        }
        Some(_) => return None,
    };
    (!is_listed(name, profile)).then(|| not_allowed(command, profile).with_hint(hint(name, profile)))
}

fn is_listed(name: &str, profile: Profile) -> bool {
    match profile {
        Profile::Inspect => INSPECT.contains(&name),
        Profile::Build => INSPECT.contains(&name) || BUILD.contains(&name),
        Profile::Mutate => INSPECT.contains(&name) || BUILD.contains(&name) || MUTATE.contains(&name),
        Profile::Networked => true,
    }
}

fn not_allowed(command: &str, profile: Profile) -> Reason {
    Reason::command_not_allowed(format!("`{}` is not a command of the profile `{profile}`", shown(command)))
}

fn hint(name: &str, profile: Profile) -> String {
    let others = [Profile::Build, Profile::Mutate].into_iter().filter(|other| *other > profile);
    let mut having = others.filter(|other| is_listed(name, *other));
    match having.next() {
        Some(other) => format!("the profile `{other}` has it"),
        None => {
            let known = INSPECT.iter().chain(BUILD).chain(MUTATE).copied();
            let near = contract::nearest(name, known).map(|near| format!("did you mean `{near}`? "));
            format!(
                "{}no profile has `{}`; an operator allows every program with `terminal: full` in `agents.NAME.overrides`",
                near.unwrap_or_default(),
                shown(name)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(command: &str, profile: Profile) -> bool {
        unlisted(command, profile).is_none()
    }

    #[test]
    fn each_profile_has_the_commands_of_those_before_it() {
        use Profile::{Build, Inspect, Mutate, Networked};
        let cases = [("ls", Inspect), ("cargo", Build), ("rm", Mutate), ("curl", Networked)];
        for (command, first) in cases {
            for profile in [Inspect, Build, Mutate, Networked] {
                assert_eq!(allowed(command, profile), profile >= first, "{command} {profile}");
            }
        }
    }

    #[test]
    fn a_path_lends_its_name_only_if_it_is_the_systems() {
        assert!(allowed("/usr/bin/ls", Profile::Inspect) && allowed("/bin/cat", Profile::Inspect));
        for command in
            ["/tmp/x/ls", "/usr/bin/../../tmp/ls", "/usr/binx/ls", "//tmp/ls", "/ls", "/usr/bin/x/ls"]
        {
            assert!(!allowed(command, Profile::Mutate), "{command}");
        }
    }

    #[test]
    fn programs_of_the_workspace_run_where_building_is_allowed_and_nowhere_else() {
        assert!(!allowed("./script.sh", Profile::Inspect));
        assert!(allowed("./script.sh", Profile::Build) && allowed("target/debug/app", Profile::Mutate));
    }

    #[test]
    fn a_refusal_says_which_profile_has_it_or_that_none_has() {
        let hint = |command, profile| unlisted(command, profile).and_then(|reason| reason.hint).unwrap();
        assert_eq!(hint("cargo", Profile::Inspect), "the profile `build` has it");
        assert_eq!(hint("rm", Profile::Build), "the profile `mutate` has it");
        assert_eq!(
            hint("gti", Profile::Inspect),
            "did you mean `git`? no profile has `gti`; an operator allows every program with `terminal: full` in `agents.NAME.overrides`"
        );
        assert_eq!(
            hint("kubectl", Profile::Mutate),
            "no profile has `kubectl`; an operator allows every program with `terminal: full` in `agents.NAME.overrides`"
        );
    }

    #[test]
    fn no_command_is_listed_twice() {
        let mut all: Vec<&str> = INSPECT.iter().chain(BUILD).chain(MUTATE).copied().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
