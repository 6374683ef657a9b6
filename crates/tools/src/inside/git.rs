//! What git is told before it is started in a repository that nobody vouches for.
//!
//! A repository's settings name programs: hooks, monitors, filters, pagers, helpers. Here they name none. What can be
//! outranked by a setting of ours is; what has a name of the repository's choosing is looked up and outranked by that
//! name, or the call is refused. Even so git runs behind the walls of its profile.
//!
//! # Invariants
//! - Settings of the host's and of its users' are not read: only the repository's own, and ours above them.
//! - The repository is `.git` of the directory where git starts, a directory and no link: nothing is searched for, and no
//!   file says where it is.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use contract::Reason;
use jail::HOME;
use rustix::fs::{AtFlags, CWD, FileType, statat};
use serde::{Deserialize, Serialize};

use crate::path::shown;

/// What git is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GitUse {
    /// To look: nothing of the repository is changed, not even to be faster next time.
    Look,
    /// To change it, and what is checked out of it.
    Change,
    /// To bring one from elsewhere into a directory that is new or empty.
    Clone(Transport),
    /// To bring commits from elsewhere, or send some there: what is checked out stays as it is.
    Exchange(Transport),
}

/// How another host is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Transport {
    Https,
    Ssh,
}

/// What ssh knows inside: whom it may believe, and who signs for it. Nothing of it is secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SshInside {
    /// The keys of the host, a line each as `known_hosts(5)` has them.
    pub(crate) known_hosts: Vec<String>,
    /// Where somebody signs for it, if anybody does.
    pub(crate) signer: Option<String>,
}

impl GitUse {
    /// How it reaches another host, if it does.
    pub(crate) fn transport(self) -> Option<Transport> {
        match self {
            GitUse::Look | GitUse::Change => None,
            GitUse::Clone(transport) | GitUse::Exchange(transport) => Some(transport),
        }
    }

    fn reaches_out(self) -> bool {
        self.transport().is_some()
    }
}

/// As much of a repository's settings as is read.
const MOST_SETTINGS: usize = 4 << 20;

/// ATTACK(repository-settings): each of these names a program, or makes git start one, where a repository sets it.
const SETTINGS: [(&str, &str); 53] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.editor", "true"),
    ("core.askPass", "false"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", ""),
    ("core.alternateRefsCommand", "true"),
    ("core.attributesFile", "/dev/null"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("sequence.editor", "true"),
    ("diff.external", ""),
    ("interactive.diffFilter", "cat"),
    ("credential.helper", ""),
    ("credential.interactive", "false"),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.ssh.defaultKeyCommand", ""),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("push.gpgSign", "false"),
    // An option may open or merge what nobody has approved.
    ("push.pushOption", ""),
    ("log.showSignature", "false"),
    ("merge.verifySignatures", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // ATTACK(repository-submodule): in a submodule git starts itself anew, and knows none of these.
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("diff.ignoreSubmodules", "dirty"),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
    ("protocol.allow", "never"),
    ("http.followRedirects", "false"),
    ("http.proxy", ""),
    ("fetch.bundleURI", ""),
    ("transfer.bundleURI", "false"),
    ("safe.bareRepository", "explicit"),
    ("branch.autoSetupMerge", "false"),
    ("checkout.guess", "false"),
    // What would make an answer look different.
    ("color.ui", "false"),
    ("color.diff", "false"),
    ("color.status", "false"),
    ("color.branch", "false"),
    ("diff.noprefix", "false"),
    ("diff.mnemonicPrefix", "false"),
    ("diff.renames", "true"),
    ("diff.interHunkContext", "0"),
    ("log.mailmap", "false"),
    ("i18n.logOutputEncoding", "UTF-8"),
];

/// Variables that outrank settings, or that there is no setting for.
const VARIABLES: [(&str, &str); 13] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("GIT_MERGE_AUTOEDIT", "no"),
    ("GIT_NO_LAZY_FETCH", "1"),
    // What stands under a name is what is shown, and not what somebody has put in its place.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("LC_ALL", "C.UTF-8"),
];

/// What ssh is told: of the host's and its user's settings it reads none, it asks nobody, it talks to no host whose key is not
/// among those that it was given, it has no key of its own, and it passes nothing on.
const SSH: &str = "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes -o UpdateHostKeys=no \
    -o VerifyHostKeyDNS=no -o GlobalKnownHostsFile=/dev/null -o IdentityFile=none -o PreferredAuthentications=publickey \
    -o ForwardAgent=no -o ClearAllForwardings=yes -o PermitLocalCommand=no -o ProxyCommand=none -o ControlMaster=no \
    -o ControlPath=none";

/// The file with the keys of hosts, in the scratch home.
const KNOWN_HOSTS: &str = ".known_hosts";

/// The variables with which git is started where this process is, if it may be.
pub(super) fn variables(used: GitUse, ssh: Option<&SshInside>) -> Result<Vec<(String, String)>, Reason> {
    if let Some(ssh) = ssh {
        write_known_hosts(ssh)?;
    }
    let settings: Vec<(String, String)> =
        SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    if matches!(used, GitUse::Clone(_)) {
        check_empty()?;
        return Ok(environment(used, ssh, &settings));
    }
    check_place()?;
    if used.reaches_out() {
        check_nicknames()?;
    }
    let own = own_settings(&environment(used, ssh, &settings))?;
    let more = outrank(&own, used)?;
    Ok(environment(used, ssh, &[settings, more].concat()))
}

fn write_known_hosts(ssh: &SshInside) -> Result<(), Reason> {
    let lines: String = ssh.known_hosts.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(Path::new(HOME).join(KNOWN_HOSTS), lines)
        .map_err(|_| Reason::tool_failed("the keys of hosts cannot be written into the sandbox"))
}

/// How ssh is started.
fn ssh_command(ssh: Option<&SshInside>) -> String {
    let signer = ssh.and_then(|ssh| ssh.signer.as_deref()).unwrap_or("none");
    format!("{SSH} -o UserKnownHostsFile={HOME}/{KNOWN_HOSTS} -o IdentityAgent={signer}")
}

/// ATTACK(git-directory-elsewhere): a link or a file in the place of `.git`, or a `commondir` in it, leads to settings
/// that nothing protects.
fn check_place() -> Result<(), Reason> {
    let kind = |path: &str| {
        let status = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(status.st_mode))
    };
    match kind(".git") {
        Some(FileType::Directory) => {}
        None => {
            return Err(Reason::tool_failed("there is no repository here: no directory `.git`")
                .with_hint("`repository` is the directory that has it, relative to the workspace"));
        }
        Some(_) => {
            return Err(Reason::cannot_enforce(
                "`.git` is not a directory: this is a worktree or a submodule of another repository",
            )
            .with_hint("name the repository that it belongs to"));
        }
    }
    if kind(".git/commondir").is_some() || kind(".git/config") == Some(FileType::Symlink) {
        return Err(Reason::cannot_enforce("the repository takes its settings from elsewhere"));
    }
    Ok(())
}

/// ATTACK(repository-nickname): to git an address without a slash may be a name, and a file of that name says what it stands
/// for. No setting shows it.
fn check_nicknames() -> Result<(), Reason> {
    for folder in [".git/remotes", ".git/branches"] {
        let is_empty = match std::fs::read_dir(folder) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if !is_empty {
            let why = format!("the repository's `{folder}` says what addresses stand for");
            return Err(Reason::cannot_enforce(why)
                .with_hint("git has not written such files for many years; a person can remove them"));
        }
    }
    Ok(())
}

/// What was there before would be what git obeys.
fn check_empty() -> Result<(), Reason> {
    let entries = std::fs::read_dir(".").map(|mut entries| entries.next().is_some());
    match entries {
        Ok(false) => Ok(()),
        Ok(true) => Err(Reason::tool_failed("the directory for the clone is not empty")
            .with_hint("give a `directory` that is not there yet")),
        Err(_) => Err(Reason::tool_failed("the directory for the clone cannot be read")),
    }
}

fn environment(
    used: GitUse,
    ssh: Option<&SshInside>,
    settings: &[(String, String)],
) -> Vec<(String, String)> {
    let fixed = VARIABLES.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    // Of this home there is only what came with the plan.
    let home = Path::new(HOME).join(".gitconfig").to_string_lossy().into_owned();
    let locks = if used == GitUse::Look { "0" } else { "1" };
    let (protocols, ssh) = match used.transport() {
        None => ("", "false".to_owned()),
        Some(Transport::Https) => ("https", "false".to_owned()),
        Some(Transport::Ssh) => ("ssh", ssh_command(ssh)),
    };
    let own = [
        // ATTACK(git-transport): whatever a setting permits, this is the only way there is.
        ("GIT_ALLOW_PROTOCOL".to_owned(), protocols.to_owned()),
        ("GIT_SSH_COMMAND".to_owned(), ssh),
        ("GIT_SSH_VARIANT".to_owned(), "ssh".to_owned()),
        ("GIT_CONFIG_GLOBAL".to_owned(), home),
        ("GIT_OPTIONAL_LOCKS".to_owned(), locks.to_owned()),
        ("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string()),
    ];
    let numbered = settings.iter().enumerate().flat_map(|(place, (key, value))| {
        [
            (format!("GIT_CONFIG_KEY_{place}"), key.clone()),
            (format!("GIT_CONFIG_VALUE_{place}"), value.clone()),
        ]
    });
    fixed.chain(own).chain(numbered).collect()
}

/// The repository's settings, as git itself reads them.
#[expect(clippy::disallowed_methods, reason = "behind every wall: this is the inside of the sandbox")]
fn own_settings(variables: &[(String, String)]) -> Result<Vec<(String, String)>, Reason> {
    let unread = |why: &str| Reason::tool_failed(format!("the repository's settings cannot be read: {why}"));
    let asked = Command::new("git")
        .args(["--git-dir=.git", "--work-tree=.", "config", "--list", "--null", "--show-scope"])
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| unread(&format!("`git` cannot be started ({})", error.kind())))?;
    if !asked.status.success() {
        let complaint = String::from_utf8_lossy(&asked.stderr);
        return Err(unread(&shown(complaint.trim())));
    }
    if asked.stdout.len() > MOST_SETTINGS {
        return Err(unread("there are too many"));
    }
    Ok(read_settings(&String::from_utf8_lossy(&asked.stdout)))
}

/// Reads pairs of a scope and a setting; those that are ours are left out.
fn read_settings(text: &str) -> Vec<(String, String)> {
    let mut records = text.split_terminator('\0');
    let mut found = Vec::new();
    while let (Some(scope), Some(entry)) = (records.next(), records.next()) {
        if scope != "command" && scope != "global" {
            let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
            found.push((key.to_owned(), value.to_owned()));
        }
    }
    found
}

/// Settings that outrank those whose names the repository chose; or why git cannot be started here at all.
fn outrank(own: &[(String, String)], used: GitUse) -> Result<Vec<(String, String)>, Reason> {
    let mut filters = BTreeSet::new();
    for (key, value) in own {
        // The first and the last part of a key are in lower case, whatever was written.
        let mut parts = key.splitn(2, '.');
        let (section, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (name, last) = rest.rsplit_once('.').unwrap_or(("", rest));
        match (section, last) {
            // ATTACK(repository-include): what it includes may change before git reads it again.
            ("include" | "includeif", "path") => {
                return Err(refused(key, "takes settings from another file"));
            }
            ("hook", "command") => return Err(refused(key, "runs a program")),
            // ATTACK(repository-filter): without its filter a file is not what the repository wants to hold.
            ("filter", "clean" | "smudge" | "process") if used == GitUse::Change && !value.is_empty() => {
                return Err(refused(key, "runs a program over every file"));
            }
            // ATTACK(repository-address): these lead elsewhere than the call says, or with less care, whatever we set.
            ("http" | "url" | "credential", _) if used.reaches_out() => {
                return Err(refused(key, "changes how other hosts are reached"));
            }
            ("remote", _) if used.reaches_out() && (last == "vcs" || name.contains(':')) => {
                return Err(refused(key, "changes how other hosts are reached"));
            }
            ("filter", _) if !name.is_empty() => {
                filters.insert(name.to_owned());
            }
            _ => {}
        }
    }
    let off = |name: String| {
        [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")]
            .map(|(last, value)| (format!("filter.{name}.{last}"), value.to_owned()))
    };
    Ok(filters.into_iter().flat_map(off).collect())
}

fn refused(key: &str, what: &str) -> Reason {
    Reason::cannot_enforce(format!("the repository's own setting `{}` {what}", shown(key))).with_hint(
        "no setting of the gate allows it; a person can remove it with `git config --unset`, or do this by hand",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn filters_are_switched_off_by_their_own_names_where_git_only_looks() {
        let own = [setting("filter.a.b.clean", "evil"), setting("filter.a.b.required", "true")];
        let off = outrank(&own, GitUse::Look).unwrap();
        let expected = [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];
        assert_eq!(off, expected.map(|(last, value)| setting(&format!("filter.a.b.{last}"), value)));
    }

    #[test]
    fn what_cannot_be_switched_off_is_refused_by_its_name() {
        let cases = [
            ("include.path", "../x", GitUse::Look),
            ("includeif.gitdir:/x/.path", "../x", GitUse::Look),
            ("hook.a.command", "evil", GitUse::Look),
            ("filter.lfs.process", "git-lfs", GitUse::Change),
            ("filter.x.clean", "evil", GitUse::Change),
            ("filter.x.smudge", "evil", GitUse::Change),
            ("url.ext::evil.insteadof", "https://", GitUse::Exchange(Transport::Https)),
            ("http.https://a.example/.sslverify", "false", GitUse::Exchange(Transport::Https)),
            ("http.proxy", "x", GitUse::Exchange(Transport::Https)),
            ("credential.helper", "evil", GitUse::Exchange(Transport::Https)),
            ("remote.https://a.example/x.url", "ssh://b.example/x", GitUse::Exchange(Transport::Https)),
            ("remote.origin.vcs", "evil", GitUse::Exchange(Transport::Https)),
        ];
        for (key, value, used) in cases {
            let reason = outrank(&[setting(key, value)], used).unwrap_err();
            assert_eq!(reason.code.as_str(), "cannot_enforce", "{key}");
            assert!(reason.message.contains(key), "{}", reason.message);
        }
        for (key, value) in [("user.name", "x"), ("filter.x.clean", ""), ("remote.origin.url", "x")] {
            assert!(outrank(&[setting(key, value)], GitUse::Change).is_ok(), "{key}");
        }
    }

    #[test]
    fn settings_of_ours_are_not_taken_for_the_repositorys() {
        let text =
            "command\0http.proxy\n\0local\0core.bare\nfalse\0global\0user.name\nagent\0worktree\0a.b\0";
        assert_eq!(read_settings(text), [setting("core.bare", "false"), setting("a.b", "")]);
    }

    #[test]
    fn only_what_reaches_out_has_a_way_to() {
        let protocols = |used| {
            let all = environment(used, None, &[]);
            all.into_iter().find(|(name, _)| name == "GIT_ALLOW_PROTOCOL").map(|(_, value)| value)
        };
        assert_eq!(protocols(GitUse::Look).as_deref(), Some(""));
        assert_eq!(protocols(GitUse::Change).as_deref(), Some(""));
        assert_eq!(protocols(GitUse::Exchange(Transport::Https)).as_deref(), Some("https"));
        assert_eq!(protocols(GitUse::Clone(Transport::Ssh)).as_deref(), Some("ssh"));
    }

    #[test]
    fn every_setting_has_its_number() {
        let all = environment(GitUse::Look, None, &[setting("a.b", "c"), setting("d.e", "f")]);
        let value = |name: &str| all.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(value("GIT_CONFIG_COUNT"), Some("2"));
        assert_eq!((value("GIT_CONFIG_KEY_1"), value("GIT_CONFIG_VALUE_1")), (Some("d.e"), Some("f")));
        assert_eq!(value("GIT_OPTIONAL_LOCKS"), Some("0"));
    }
}
