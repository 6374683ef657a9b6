//! The only place that reads the environment.
#![expect(clippy::disallowed_methods, reason = "this is the place")]

use std::path::PathBuf;

use sandbox::Host;

/// The caller's home and variables.
pub(crate) fn host() -> Host {
    Host { home: std::env::var_os("HOME").map(PathBuf::from), variables: std::env::vars_os().collect() }
}

/// Where Toolgate keeps what it must remember: `TOOLGATE_HOME`, else `~/.local/state/toolgate`.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let named = std::env::var_os("TOOLGATE_HOME").map(PathBuf::from);
    let default = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state/toolgate"));
    named.or_else(default).filter(|folder| folder.is_absolute())
}

/// Whether it is `TOOLGATE_HOME` that names the state folder.
pub(crate) fn home_is_named() -> bool {
    std::env::var_os("TOOLGATE_HOME").is_some()
}

/// The configuration that `TOOLGATE_CONFIG` names.
pub(crate) fn config_file() -> Option<PathBuf> {
    std::env::var_os("TOOLGATE_CONFIG").filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// Which events operators are told, from `TOOLGATE_LOG`: `info`, say, or `engine=debug`.
pub(crate) fn log_filter() -> Option<String> {
    std::env::var("TOOLGATE_LOG").ok()
}

/// Whether `TOOLGATE_LOG_FORMAT` wants events as JSON.
pub(crate) fn logs_json() -> bool {
    std::env::var("TOOLGATE_LOG_FORMAT").is_ok_and(|form| form == "json")
}

/// The operator's credential in `TOOLGATE_OPERATOR_KEY`.
pub(crate) fn operator_key() -> Option<String> {
    std::env::var("TOOLGATE_OPERATOR_KEY").ok().filter(|key| !key.is_empty())
}

/// The store that `TOOLGATE_STORE` names.
pub(crate) fn store_url() -> Option<String> {
    std::env::var("TOOLGATE_STORE").ok().filter(|url| !url.is_empty())
}

/// The store that a variable names which the configuration names.
pub(crate) fn store_in(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|url| !url.is_empty())
}

/// The secret in a variable which the configuration names.
pub(crate) fn secret_in(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|secret| !secret.is_empty())
}
