//! Which environment variables may exist in a sandbox.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The search path inside a sandbox, before a profile adds toolchains.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The home directory inside a sandbox: empty at the start, gone at the end.
pub const HOME: &str = "/home/agent";

/// The caller's variables that may be passed on. `LC_*` are passed too.
pub const PASSED_VARIABLES: [&str; 8] =
    ["LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"];

/// Words that make a variable a secret, wherever they stand in its name.
const SECRET_WORDS: [&str; 9] =
    ["KEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL", "PRIVATE", "PASSPHRASE", "COOKIE"];

/// Beginnings of variables that make a loader or runtime run other code.
const INJECTING_PREFIXES: [&str; 5] = ["LD_", "DYLD_", "BASH_FUNC_", "GIT_CONFIG_", "_JAVA_"];

/// Variables that make a loader or runtime run other code.
const INJECTING_NAMES: [&str; 27] = [
    "BASH_ENV",
    "CLASSPATH",
    "ENV",
    "GCONV_PATH",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_TEMPLATE_DIR",
    "GLIBC_TUNABLES",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
];

/// Whether a variable of this name is kept out of every sandbox: a secret by its name, or a way to inject code.
pub fn is_denied_variable(name: &OsStr) -> bool {
    // ATTACK(environment-case): names are compared without case, so `Api_Key` is no way around `*KEY*`.
    let upper = String::from_utf8_lossy(name.as_bytes()).to_uppercase();
    SECRET_WORDS.iter().any(|word| upper.contains(word))
        || INJECTING_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        || INJECTING_NAMES.contains(&upper.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_injection_are_denied_whatever_their_case() {
        for name in
            ["AWS_SECRET_ACCESS_KEY", "github_token", "LD_PRELOAD", "ld_audit", "BASH_ENV", "MY_PASSWORD_2"]
        {
            assert!(is_denied_variable(OsStr::new(name)), "{name}");
        }
        for name in ["LANG", "CARGO_HOME", "MAKEFLAGS", "HOME"] {
            assert!(!is_denied_variable(OsStr::new(name)), "{name}");
        }
    }
}
