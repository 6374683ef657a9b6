//! What a command can see, write and reach under each profile, and whose its files are.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

use crate::toolgate::{Gate, finish, has, marker, missing, ran, start};

#[test]
fn inspect_shows_the_current_directory_at_its_own_path() {
    let Some(gate) = Gate::native() else { return };
    fs::write(gate.work().join("file"), "content\n").expect("it can be written");
    let expected = format!("{}\ncontent\n", gate.work().display());
    assert_eq!(gate.run(&[], &["sh", "-c", "pwd; cat file"]), ran(0, expected, ""));
}

#[test]
fn inspect_cannot_write() {
    let Some(gate) = Gate::native() else { return };
    fs::write(gate.work().join("file"), "content").expect("it can be written");
    let script = "for attempt in 'echo x > new' 'echo x >> file' 'rm file' 'mv file other' 'chmod 777 file' \
        'mkdir new' 'ln -s file new' 'echo x > /usr/new' 'echo x > /etc/new' 'echo x > /new' 'mknod new p'; do \
        if sh -c \"$attempt\" 2>/dev/null; then echo \"got through: $attempt\"; fi; done";
    assert_eq!(gate.run(&[], &["sh", "-c", script]), ran(0, "", ""));
    assert_eq!(names_in(&gate.work()), ["file"]);
    assert_eq!(fs::read_to_string(gate.work().join("file")).expect("it is there"), "content");
}

#[test]
fn no_profile_reaches_a_listener_of_the_host() {
    let Some(gate) = Gate::native() else { return };
    if !has("bash") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
    listener.set_nonblocking(true).expect("a listener can be asked without waiting");
    let script =
        format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().expect("it has an address").port());
    // Without the sandbox it gets through, so the test can fail.
    let mut outside = std::process::Command::new("bash");
    outside.args(["-c", &script]);
    gate.settle(&mut outside);
    assert_eq!(finish(start(&mut outside)), ran(0, "", ""));
    assert!(listener.accept().is_ok());

    for options in [&["--profile", "inspect"][..], &["--profile", "build"], &["--profile", "mutate"]] {
        let ended = gate.run(options, &["bash", "-c", &script]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{options:?}: {}", ended.stderr);
        assert!(listener.accept().is_err(), "{options:?} reached it");
    }
}

#[test]
fn build_may_use_its_own_loopback_and_inspect_may_not() {
    let Some(gate) = Gate::native() else { return };
    if !has("perl") {
        return;
    }
    let script = "use IO::Socket::INET; my $l = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or exit 9; \
        IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $l->sockport) or exit 8; print 'met'";
    assert_eq!(gate.run(&["--profile", "build"], &["perl", "-e", script]), ran(0, "met", ""));
    assert_eq!(gate.run(&["--profile", "inspect"], &["perl", "-e", script]), ran(9, "", ""));
}

#[test]
fn build_writes_where_it_may_and_the_files_belong_to_the_caller() {
    let Some(gate) = Gate::native() else { return };
    let script =
        "mkdir folder && echo made > folder/file && ln -s file folder/link && stat -c %u:%g folder/file";
    let ended = gate.run(&["--profile", "build", "--rw", "."], &["sh", "-c", script]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(fs::read_to_string(gate.work().join("folder/file")).expect("it is there"), "made\n");
    for name in ["folder", "folder/file", "folder/link"] {
        let status = fs::symlink_metadata(gate.work().join(name)).expect("it is there");
        let expected = (geteuid().as_raw(), getegid().as_raw());
        assert_eq!((status.uid(), status.gid()), expected, "{name}");
    }
}

#[test]
fn files_in_somebody_elses_directory_belong_to_them() {
    let Some(gate) = Gate::native() else { return };
    if !geteuid().is_root() {
        missing("root", "only root can give a directory away");
        return;
    }
    let shared = gate.place("home");
    fs::write(shared.join("theirs"), "old").expect("it can be written");
    chown(shared.join("theirs"), Some(12_345), Some(54_321)).expect("root may give files away");
    chown(&shared, Some(12_345), Some(54_321)).expect("root may give directories away");
    let script = "cd \"$0\" && echo new > theirs && echo made > made && mkdir folder";
    let path = shared.to_str().expect("text");
    assert_eq!(gate.run(&["--profile", "build", "--rw", path], &["sh", "-c", script, path]), ran(0, "", ""));
    for name in ["theirs", "made", "folder"] {
        let status = fs::symlink_metadata(shared.join(name)).expect("it is there");
        assert_eq!((status.uid(), status.gid()), (12_345, 54_321), "{name}");
    }
}

#[test]
fn only_the_directories_named_are_there() {
    let Some(gate) = Gate::native() else { return };
    let (shown, granted, other) = (gate.place("home"), gate.work(), gate.place("tmp"));
    for folder in [&shown, &granted, &other] {
        fs::write(folder.join("file"), "content\n").expect("it can be written");
    }
    let script = "cat \"$1/file\"; echo x > \"$1/new\"; echo x > \"$2/new\"; cat \"$3/file\"";
    let text = |path: &PathBuf| path.display().to_string();
    let (shown_text, granted_text, other_text) = (text(&shown), text(&granted), text(&other));
    let options = ["--profile", "build", "--ro", &shown_text, "--rw", &granted_text];
    let ended = gate.run(&options, &["sh", "-c", script, "sh", &shown_text, &granted_text, &other_text]);
    let complaints = format!(
        "sh: 1: cannot create {shown_text}/new: Read-only file system\ncat: {other_text}/file: No such file or directory\n"
    );
    assert_eq!(ended, ran(1, "content\n", complaints));
    assert_eq!(
        (names_in(&shown), names_in(&granted)),
        (vec!["file".to_owned()], vec!["file".into(), "new".into()])
    );
}

#[test]
fn a_relative_directory_is_meant_from_here() {
    let Some(gate) = Gate::native() else { return };
    fs::create_dir_all(gate.work().join("a/b")).expect("it can be made");
    fs::write(gate.work().join("a/file"), "content\n").expect("it can be written");
    assert_eq!(gate.run(&["--ro", "./a/b/.."], &["cat", "a/file"]).code, Some(1));
    let path = gate.work().join("a/file").display().to_string();
    assert_eq!(gate.run(&["--ro", "./a/b/.."], &["cat", &path]), ran(0, "content\n", ""));
}

#[test]
fn a_directory_can_be_granted_wherever_people_keep_their_work() {
    let Some(gate) = Gate::native() else { return };
    let places = ["/tmp", "/var/tmp", "/home", "/mnt", "/opt", "/root", "/srv", "/var/lib", "/work"];
    let mut tried = 0;
    for place in places {
        let Ok(folder) =
            tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir_in(place)
        else {
            continue;
        };
        fs::write(folder.path().join("file"), "content\n").expect("it can be written");
        let mut shown = gate.run_command(&[], &["sh", "-c", "pwd; cat file"]);
        let expected = format!("{}\ncontent\n", folder.path().display());
        assert_eq!(finish(start(shown.current_dir(folder.path()))), ran(0, expected, ""), "{place}");
        let mut granted =
            gate.run_command(&["--profile", "build", "--rw", "."], &["sh", "-c", "echo x > new"]);
        assert_eq!(finish(start(granted.current_dir(folder.path()))), ran(0, "", ""), "{place}");
        assert_eq!(names_in(folder.path()), ["file", "new"], "{place}");
        tried += 1;
    }
    assert!(tried >= 2, "everyone may write in /tmp and /var/tmp");
}

#[test]
fn the_environment_is_exactly_this() {
    let Some(gate) = Gate::native() else { return };
    let mut command = gate.run_command(&[], &["env"]);
    command.envs([
        ("LANG", "C.UTF-8"),
        ("LC_TIME", "C"),
        ("TERM", "dumb"),
        ("AWS_SECRET_ACCESS_KEY", "canary"),
        ("GITHUB_TOKEN", "canary"),
        ("SSH_AUTH_SOCK", "/canary"),
        ("DATABASE_URL", "canary"),
        ("LD_LIBRARY_PATH", "/canary"),
        ("PYTHONPATH", "/canary"),
        ("http_proxy", "canary"),
    ]);
    let ended = finish(start(&mut command));
    let expected = BTreeSet::from([
        "HOME=/home/agent",
        "LANG=C.UTF-8",
        "LC_TIME=C",
        "LOGNAME=agent",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "SHELL=/bin/sh",
        "TERM=dumb",
        "TMPDIR=/tmp",
        "USER=agent",
    ]);
    assert_eq!((ended.code, ended.stdout.lines().collect::<BTreeSet<_>>()), (Some(0), expected));
    assert_eq!(ended.stdout.lines().count(), 9);
}

#[test]
fn a_variable_that_is_named_is_set_and_replaces_ours() {
    let Some(gate) = Gate::native() else { return };
    let options = ["--env", "A=1", "--env", "B=x=y z", "--env", "C=", "--env", "USER=me", "--env", "A=2"];
    let script = "echo \"$A|$B|${C-unset}|$USER\"; env | grep -c '^A='";
    assert_eq!(gate.run(&options, &["sh", "-c", script]), ran(0, "2|x=y z||me\n1\n", ""));
}

#[test]
fn home_is_empty_its_own_and_gone_afterwards() {
    let Some(gate) = Gate::native() else { return };
    let script = "ls -A ~ && cd && pwd && echo x > file && ls -A ~ && stat -c %a ~";
    for _ in 0..2 {
        assert_eq!(gate.run(&[], &["sh", "-c", script]), ran(0, "/home/agent\nfile\n700\n", ""));
    }
    assert!(names_in(&gate.place("home")).is_empty());
    assert!(!Path::new("/home/agent").exists());
}

#[test]
fn scratch_space_is_empty_private_and_gone_afterwards() {
    let Some(gate) = Gate::native() else { return };
    let name = marker();
    let planted = Path::new("/tmp").join(format!("tg-{name}"));
    fs::write(&planted, "host").expect("everyone may write in /tmp");
    let script = "ls -A /tmp /dev/shm /var/tmp && echo x > /tmp/\"$0\" && cat /var/tmp/\"$0\" && ls -A /tmp";
    for _ in 0..2 {
        // From a directory of the system, so that nothing of the host is shown in /tmp.
        let mut command = gate.run_command(&[], &["sh", "-c", script, &name]);
        let ended = finish(start(command.current_dir("/usr")));
        assert_eq!(ended, ran(0, format!("/dev/shm:\n\n/tmp:\n\n/var/tmp:\nx\n{name}\n"), ""));
        assert!(!Path::new("/tmp").join(&name).exists());
    }
    fs::remove_file(planted).expect("it is ours");
}

#[test]
fn secrets_in_the_tree_are_hidden_unless_shown() {
    let Some(gate) = Gate::native() else { return };
    fs::create_dir(gate.work().join("api")).expect("it can be made");
    for name in [".env", "api/.env.local", "server.pem", "data.sqlite", "plain"] {
        fs::write(gate.work().join(name), "content\n").expect("it can be written");
    }
    let script = "for file in .env api/.env.local server.pem data.sqlite plain; do \
        cat $file >/dev/null 2>&1 && echo $file; done; true";
    let read = |options: &[&str]| gate.run(options, &["sh", "-c", script]);
    assert_eq!(read(&[]), ran(0, "data.sqlite\nplain\n", ""));
    assert_eq!(read(&["--hide", "*.sqlite"]), ran(0, "plain\n", ""));
    assert_eq!(read(&["--show", ".env*"]), ran(0, ".env\napi/.env.local\ndata.sqlite\nplain\n", ""));
}

#[test]
fn git_hooks_and_settings_cannot_be_written() {
    let Some(gate) = Gate::native() else { return };
    fs::create_dir_all(gate.work().join(".git/hooks")).expect("it can be made");
    fs::write(gate.work().join(".git/config"), "[core]\n").expect("it can be written");
    let script = "for attempt in 'echo x > .git/hooks/pre-commit' 'echo x >> .git/config' 'rm .git/config' \
        'mv .git other' 'mv .git/hooks other' 'rm -r .git'; do \
        if sh -c \"$attempt\" 2>/dev/null; then echo \"got through: $attempt\"; fi; done; echo x > .git/fine";
    assert_eq!(gate.run(&["--profile", "build", "--rw", "."], &["sh", "-c", script]), ran(0, "", ""));
    assert_eq!(names_in(&gate.work().join(".git")), ["config", "fine", "hooks"]);
    assert_eq!(fs::read_to_string(gate.work().join(".git/config")).expect("it is there"), "[core]\n");
    assert!(names_in(&gate.work().join(".git/hooks")).is_empty());
}

#[test]
fn limits_are_felt_inside() {
    let Some(gate) = Gate::native() else { return };
    let fill = "head -c 3000000 /dev/zero > /tmp/file";
    let full = gate.run(&["--disk", "1m"], &["sh", "-c", fill]);
    assert_eq!((full.code, full.stdout.as_str()), (Some(1), ""), "{}", full.stderr);
    assert_eq!(gate.run(&["--disk", "4m"], &["sh", "-c", fill]), ran(0, "", ""));
    let start_many = "for i in 1 2 3 4 5 6 7 8; do sleep 5 & done; echo all";
    let many = gate.run(&["--pids", "4"], &["sh", "-c", start_many]);
    assert_eq!((many.code, many.stdout.as_str()), (Some(2), ""), "{}", many.stderr);
    assert_eq!(gate.run(&["--pids", "20"], &["sh", "-c", start_many]), ran(0, "all\n", ""));
}

#[test]
fn a_toolchain_in_the_callers_home_is_there_for_builds_only() {
    let Some(gate) = Gate::native() else { return };
    let folder = gate.place("home").join(".cargo/bin");
    fs::create_dir_all(&folder).expect("it can be made");
    fs::write(gate.place("home").join(".cargo/credentials.toml"), "canary").expect("it can be written");
    let program = folder.join("my-compiler");
    fs::write(&program, "#!/bin/sh\necho compiled; ls -A \"$CARGO_HOME\"\n").expect("it can be written");
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("its mode can be set");
    assert_eq!(gate.run(&[], &["my-compiler"]).code, Some(127));
    assert_eq!(gate.run(&["--profile", "build"], &["my-compiler"]), ran(0, "compiled\nbin\n", ""));
}

#[test]
fn nothing_is_needed_of_the_callers_environment() {
    if Gate::native().is_none() {
        return;
    }
    let gate = Gate::new();
    let mut command = gate.run_command(&[], &["pwd"]);
    command.env_clear();
    // Without a place for proofs the walls are tried every time, and what that needs is cleaned up.
    let before = canaries();
    assert_eq!(finish(start(&mut command)), ran(0, format!("{}\n", gate.work().display()), ""));
    let left: Vec<String> = canaries().into_iter().filter(|name| !before.contains(name)).collect();
    if !left.is_empty() {
        // Somebody else's run may be at work beside us; theirs go too.
        std::thread::sleep(std::time::Duration::from_secs(3));
        let still: Vec<String> = canaries().into_iter().filter(|name| left.contains(name)).collect();
        assert_eq!(still, Vec::<String>::new());
    }
}

#[test]
fn a_caller_without_a_visible_directory_starts_at_the_root() {
    let Some(gate) = Gate::native() else { return };
    let mut command = gate.run_command(&[], &["pwd"]);
    assert_eq!(finish(start(command.current_dir("/etc"))), ran(0, "/\n", ""));
}

fn canaries() -> Vec<String> {
    names_in(Path::new("/tmp")).into_iter().filter(|name| name.starts_with("toolgate-")).collect()
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it can be listed").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
