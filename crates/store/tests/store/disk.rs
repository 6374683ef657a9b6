//! A disk of a few megabytes: a test runs itself again in a mount namespace of its own, where there is one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the small disk is, in the test that was run again.
const DISK: &str = "TOOLGATE_TEST_DISK";

/// Runs an ignored test on a small disk, in namespaces of its own. If this host or user cannot have them, that is said
/// aloud, and fails where `TOOLGATE_REQUIRE` names what is needed.
#[expect(clippy::disallowed_methods, reason = "the test is a process of its own, with a disk of its own")]
pub(crate) fn run_on_small_disk(test: &str, namespaces: &[&str], needed: &str) {
    let disk = tempfile::tempdir().unwrap();
    let can =
        Command::new("unshare").args(namespaces).arg("true").output().is_ok_and(|ran| ran.status.success());
    if !can {
        let _ = writeln!(std::io::stderr(), "skipped: {test}: no disk can be mounted here");
        let required = std::env::var("TOOLGATE_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == needed), "TOOLGATE_REQUIRE names `{needed}`");
        return;
    }
    let script = r#"mount -t tmpfs -o size=4m,mode=777 none "$1" && shift && exec "$@""#;
    let ran = Command::new("unshare")
        .args(namespaces)
        .args(["sh", "-c", script, "sh"])
        .arg(disk.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(DISK, disk.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

/// The small disk of the test that was run again.
#[expect(clippy::disallowed_methods, reason = "told by the test that runs it again")]
pub(crate) fn disk() -> PathBuf {
    std::env::var_os(DISK).unwrap().into()
}

/// Makes the disk larger. Its other options name users of the host, which a namespace of its own does not know.
#[expect(clippy::disallowed_methods, reason = "a disk is mounted by a program")]
pub(crate) fn grow(disk: &Path) {
    let grown = Command::new("mount")
        .args(["--options-mode", "ignore", "-o", "remount,size=256m"])
        .arg(disk)
        .status()
        .unwrap();
    assert!(grown.success());
}
