//! What makes no sense is refused before anything runs, with what is wrong and what to do about it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use rustix::process::geteuid;

use crate::toolgate::{Gate, Ran, binary, finish, has, ran, start};

#[test]
fn no_command_is_a_usage_error() {
    let gate = Gate::new();
    let said = "error: the following required arguments were not provided:\n  <CMD>...\n\n\
        Usage: toolgate run -- <CMD>...\n\nFor more information, try '--help'.\n";
    assert_eq!(refused(&gate, &["run"]), ran(2, "", said));
    assert_eq!(refused(&gate, &["run", "--"]), ran(2, "", said));
    let forgotten = refused(&gate, &["run", "ls"]);
    assert_eq!((forgotten.code, forgotten.stdout.as_str()), (Some(2), ""));
    assert!(forgotten.stderr.contains("-- <CMD>"), "{}", forgotten.stderr);
}

#[test]
fn an_empty_command_is_a_usage_error_with_a_hint() {
    let gate = Gate::new();
    let said = "error: no command was given\nhint: write it after `--`, such as `toolgate run -- ls -la`\n";
    assert_eq!(gate.run(&[], &[""]), ran(2, "", said));
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let Some(gate) = Gate::native() else { return };
    let said = |path: &str| {
        format!(
            "error: cannot open the directory `{path}`: No such file or directory (os error 2)\n\
             hint: check the path; a directory has to exist before it can be granted\n"
        )
    };
    assert_eq!(gate.run(&["--ro", "/no/such"], &["true"]), ran(125, "", said("/no/such")));
    assert_eq!(
        gate.run(&["--profile", "build", "--rw", "/no/such"], &["true"]),
        ran(125, "", said("/no/such"))
    );
}

#[test]
fn a_file_in_place_of_a_directory_is_named() {
    let Some(gate) = Gate::native() else { return };
    fs::write(gate.work().join("file"), "").expect("it can be written");
    let path = gate.work().join("file").display().to_string();
    let said = format!(
        "error: cannot open the directory `{path}`: Not a directory (os error 20)\n\
         hint: name the directory that the file is in\n"
    );
    assert_eq!(gate.run(&["--ro", "file"], &["true"]), ran(125, "", said));
}

#[test]
fn a_directory_that_cannot_be_read_is_named() {
    let Some(gate) = Gate::native() else { return };
    let locked = gate.work().join("locked");
    fs::create_dir(&locked).expect("it can be made");
    fs::set_permissions(&locked, PermissionsExt::from_mode(0o000)).expect("its mode can be set");
    let path = locked.display().to_string();
    let said = format!(
        "error: cannot open the directory `{path}`: Permission denied (os error 13)\n\
         hint: only directories that you may read can be granted\n"
    );
    let options = ["--ro", path.as_str()];
    let Some(mut command) = as_ordinary_user(&gate, &options) else { return };
    assert_eq!(finish(start(&mut command)), ran(125, "", said));
    fs::set_permissions(&locked, PermissionsExt::from_mode(0o700)).expect("its mode can be set");
}

#[test]
fn the_system_cannot_be_granted() {
    let gate = Gate::new();
    let hint = "hint: name the directory the command needs, not the system's\n";
    for path in ["/", "/etc", "/usr", "/usr/local/bin", "/home", "/var", "/etc/ssl"] {
        let said = format!("error: `{path}` cannot be granted for writing\n{hint}");
        assert_eq!(gate.run(&["--profile", "build", "--rw", path], &["true"]), ran(2, "", said));
    }
    for path in ["/", "/proc", "/proc/self", "/sys", "/dev", "/dev/shm", "/run"] {
        let said = format!("error: `{path}` cannot be granted for reading\n{hint}");
        assert_eq!(gate.run(&["--ro", path], &["true"]), ran(2, "", said));
    }
    // Other spellings of the same.
    for path in ["//", "/tmp/..", "/usr/../etc", "/etc/", "/./etc"] {
        let ended = gate.run(&["--profile", "build", "--rw", path], &["true"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{path}: {}", ended.stderr);
    }
}

#[test]
fn a_directory_that_is_a_link_is_refused_and_the_real_one_is_named() {
    let Some(gate) = Gate::native() else { return };
    let (real, link) = (gate.place("home"), gate.work().join("link"));
    symlink(&real, &link).expect("it can be made");
    fs::create_dir(real.join("inner")).expect("it can be made");
    for (path, meant) in [(link.clone(), real.clone()), (link.join("inner"), real.join("inner"))] {
        for options in [&["--ro"][..], &["--profile", "build", "--rw"]] {
            let text = path.display().to_string();
            let said = format!(
                "error: `{text}` is or leads through a symbolic link\n\
                 hint: name the directory itself: `{}`\n",
                meant.display()
            );
            assert_eq!(gate.run(&[options, &[&text]].concat(), &["true"]), ran(125, "", said));
        }
    }
}

#[test]
fn a_link_out_to_the_system_is_no_way_around() {
    let Some(gate) = Gate::native() else { return };
    let link = gate.work().join("link");
    symlink("/etc", &link).expect("it can be made");
    let ended = gate.run(&["--profile", "build", "--rw", "link"], &["true"]);
    let said = format!(
        "error: `{}` is or leads through a symbolic link\nhint: name the directory itself: `/etc`\n",
        link.display()
    );
    assert_eq!(ended, ran(125, "", said));
}

#[test]
fn limits_under_which_nothing_could_run_are_refused_as_they_were_written() {
    let gate = Gate::new();
    let cases = [
        ("--memory", "1", "error: memory limit of 1 is not between 8388608 and 70368744177664\n"),
        (
            "--memory",
            "9999t",
            "error: memory limit of 10994016766132224 is not between 8388608 and 70368744177664\n",
        ),
        ("--pids", "0", "error: process limit of 0 is not between 1 and 65536\n"),
        ("--disk", "1", "error: disk limit of 1 is not between 65536 and 70368744177664\n"),
        ("--timeout", "0", "error: timeout in milliseconds of 0 is not between 1 and 604800000\n"),
        (
            "--timeout",
            "9999999",
            "error: timeout in milliseconds of 9999999000 is not between 1 and 604800000\n",
        ),
        ("--cpus", "0", "error: processor limit in thousandths of 0 is not between 10 and 1024000\n"),
    ];
    for (option, value, said) in cases {
        let ended = gate.run(&[option, value], &["true"]);
        assert_eq!(ended, ran(2, "", said), "{option} {value}");
    }
}

#[test]
fn limits_that_are_no_numbers_are_refused_as_they_were_written() {
    let gate = Gate::new();
    let cases = [
        ("--memory", "5x"),
        ("--memory", "-1"),
        ("--memory", "lots"),
        ("--pids", "-1"),
        ("--pids", "many"),
        ("--timeout", "-1"),
        ("--timeout", "nan"),
        ("--timeout", "inf"),
        ("--timeout", "soon"),
        ("--cpus", "-1"),
        ("--cpus", "nan"),
        ("--output", "-5"),
    ];
    for (option, value) in cases {
        let ended = gate.run(&[&format!("{option}={value}")], &["true"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{option}={value}");
        assert!(ended.stderr.contains(value), "{option}={value} is not named: {}", ended.stderr);
        // The same in two words is understood the same way, not as an option of its own.
        assert_eq!(gate.run(&[option, value], &["true"]), ended, "{option} {value}");
    }
}

#[test]
fn a_size_with_a_strange_unit_names_the_units() {
    let gate = Gate::new();
    let said = "error: invalid value '5x' for '--memory <SIZE>': `x` is not a unit; use k, m, g or t\n\n\
        For more information, try '--help'.\n";
    assert_eq!(gate.run(&["--memory", "5x"], &["true"]), ran(2, "", said));
}

#[test]
fn two_megabytes_of_arguments_are_too_large_a_plan() {
    let gate = Gate::new();
    // Only a shell can give that many: the kernel wants a larger stack for them.
    let script =
        "ulimit -s 65536 && exec \"$0\" run -- echo $(head -c 2097152 /dev/zero | tr '\\0' x | fold -w 1000)";
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script]).arg(binary());
    gate.settle(&mut shell);
    let said = "error: the plan is too large: more than 768 KiB of arguments\n\
        hint: put large input into a file or standard input\n";
    assert_eq!(finish(start(&mut shell)), ran(2, "", said));
}

#[test]
fn too_many_arguments_or_directories_are_too_large_a_plan() {
    let gate = Gate::new();
    let hint = "hint: put large input into a file or standard input\n";
    let said = format!("error: the plan is too large: more than 8192 arguments\n{hint}");
    assert_eq!(gate.run(&[], &["x"; 8194]), ran(2, "", said));
    let directories = ["--ro", "."].repeat(65);
    let many = gate.run(&directories, &["true"]);
    assert_eq!((many.code, many.stdout.as_str()), (Some(2), ""));
    assert!(
        many.stderr.starts_with("error: the plan is too large: more than 64 directories\n"),
        "{}",
        many.stderr
    );
}

#[test]
fn many_arguments_within_the_limits_arrive() {
    let Some(gate) = Gate::native() else { return };
    let piece = "x".repeat(1000);
    let command = [&["sh", "-c", "echo $# ${#1}", "sh"][..], &[piece.as_str(); 700]].concat();
    assert_eq!(gate.run(&[], &command), ran(0, "700 1000\n", ""));
}

#[test]
fn a_variable_that_injects_code_or_is_a_secret_is_refused() {
    let gate = Gate::new();
    let hint = "hint: credentials do not enter a sandbox; put what is not secret under another name\n";
    for name in ["LD_PRELOAD", "BASH_ENV", "PYTHONPATH", "MY_API_KEY", "github_token"] {
        let said = format!(
            "error: the variable `{name}` is not allowed in a sandbox: it is a secret by its name, or injects code\n{hint}"
        );
        assert_eq!(gate.run(&["--env", &format!("{name}=x")], &["true"]), ran(2, "", said));
    }
}

#[test]
fn a_variable_without_a_value_or_a_name_is_refused() {
    let gate = Gate::new();
    let said = "error: `--env X` has no value\nhint: write it as NAME=VALUE\n";
    assert_eq!(gate.run(&["--env", "X"], &["true"]), ran(2, "", said));
    let said = "error: `` is not the name of a variable\nhint: write it as NAME=VALUE\n";
    assert_eq!(gate.run(&["--env", "=x"], &["true"]), ran(2, "", said));
}

#[test]
fn a_network_without_places_and_places_without_a_network_are_contradictions() {
    let gate = Gate::new();
    let said = "error: the profile `networked` reaches nobody without `--allow`\n\
        hint: name whom it may reach: `--allow example.com:443`\n";
    assert_eq!(gate.run(&["--profile", "networked"], &["true"]), ran(2, "", said));
    let said = "error: the profile `inspect` cannot connect, so `--allow` makes no sense with it\n\
        hint: use `--profile networked`, or `--profile build`\n";
    assert_eq!(gate.run(&["--allow", "h.example:1"], &["true"]), ran(2, "", said));
}

#[test]
fn bad_grants_are_refused_with_what_is_wrong_and_nothing_runs() {
    let gate = Gate::new();
    let cases = [
        ("*", "`*` would be every host"),
        ("*:443", "would be every host"),
        ("http://x", "`http://x` is a URL"),
        ("x:99999", "`99999` is no port"),
        ("example.com", "443"),
        ("10.0.0.0/8:80", "`10.0.0.0/8` is in a private network"),
        ("169.254.169.254:80", "metadata"),
        ("0x7f.1:80", "127.0.0.1"),
        ("ex\u{0430}mple.com:443", "looks like another name"),
        ("preset:ruby", "there is no preset `ruby`"),
    ];
    for (grant, why) in cases {
        let ended = gate.run(&["--profile", "networked", "--allow", grant], &["echo", "ran"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{grant}");
        assert!(ended.stderr.contains(why), "{grant}: {}", ended.stderr);
    }
}

#[test]
fn unknown_words_are_refused_with_the_known_ones() {
    let gate = Gate::new();
    let said = "error: `nonsense` is not a profile\nhint: choose inspect, build, mutate or networked\n";
    assert_eq!(gate.run(&["--profile", "nonsense"], &["true"]), ran(2, "", said));
    let said =
        "error: `nonsense` is not a backend of this version\nhint: choose native, subprocess or deny\n";
    assert_eq!(gate.run(&["--backend", "nonsense"], &["true"]), ran(2, "", said));
    let said = "error: unexpected argument '--nonsense' found\n\n  \
        tip: to pass '--nonsense' as a value, use '-- --nonsense'\n\n\
        Usage: toolgate run [OPTIONS] -- <CMD>...\n\nFor more information, try '--help'.\n";
    assert_eq!(gate.run(&["--nonsense"], &["true"]), ran(2, "", said));
}

#[test]
fn inspect_with_a_directory_to_write_is_a_contradiction() {
    let gate = Gate::new();
    let said = "error: the profile `inspect` cannot write, so `--rw` makes no sense with it\n\
        hint: use `--profile build`, or `--ro` instead\n";
    assert_eq!(gate.run(&["--profile", "inspect", "--rw", "."], &["true"]), ran(2, "", said));
    assert_eq!(gate.run(&["--rw", "."], &["true"]), ran(2, "", said));
}

#[test]
fn names_to_hide_or_show_have_to_be_names() {
    let gate = Gate::new();
    let said = "error: `../x` is not a name pattern: one or more names joined by `/`, with `*` for any characters\n\
        hint: a pattern is one or more names joined by `/`, such as `*.sqlite`\n";
    assert_eq!(gate.run(&["--hide", "../x"], &["true"]), ran(2, "", said));
    let said =
        "error: `.nothing` is not hidden by default\nhint: name a default pattern exactly, such as `.env*`\n";
    assert_eq!(gate.run(&["--show", ".nothing"], &["true"]), ran(2, "", said));
    let said = "error: `.env` is hidden by the pattern `.env*`, and shown only with all that it hides\n\
        hint: name the pattern: `--show '.env*'`\n";
    assert_eq!(gate.run(&["--show", ".env"], &["true"]), ran(2, "", said));
}

#[test]
fn a_terminal_and_a_report_exclude_each_other() {
    let gate = Gate::new();
    let ended = gate.run(&["--json", "-t"], &["true"]);
    assert_eq!(ended.code, Some(2));
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("the argument '--json' cannot be used with '--tty'"), "{said}");
}

#[test]
fn a_current_directory_that_is_gone_is_an_error_not_a_crash() {
    let Some(gate) = Gate::native() else { return };
    let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" run -- true";
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script]).arg(binary());
    gate.settle(&mut shell);
    let ended = finish(start(&mut shell));
    let said = "error: cannot tell the current directory: No such file or directory (os error 2)\n";
    assert_eq!(ended, ran(125, "", said));
}

#[test]
fn strict_refuses_limits_that_are_only_watched_with_a_hint_that_helps() {
    let Some(gate) = Gate::native() else { return };
    let ended = gate.run(&["--strict", "--profile", "build", "--rw", "."], &["true"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(125), ""));
    let (error, hint) = ended.stderr.split_once('\n').unwrap_or_default();
    let missing = error.strip_prefix("error: the host does not fully enforce: ").unwrap_or_default();
    assert!(missing.split(", ").any(|control| control == "disk"), "{error}");
    // A cgroup would not help with what is written to a granted directory.
    assert_eq!(hint.contains("cgroup"), missing != "disk", "{error}\n{hint}");
    assert!(hint.starts_with("hint: "), "{hint}");
}

#[test]
fn what_is_refused_has_run_nothing() {
    let Some(gate) = Gate::native() else { return };
    let command = ["sh", "-c", "echo ran; echo ran > ran"];
    let cases: [&[&str]; 4] = [
        &["--profile", "build", "--rw", ".", "--ro", "/no/such"],
        &["--profile", "build", "--rw", ".", "--env", "LD_PRELOAD=x"],
        &["--profile", "build", "--rw", ".", "--strict"],
        &["--profile", "build", "--rw", ".", "--backend", "deny"],
    ];
    for options in cases {
        let ended = gate.run(options, &command);
        assert!(matches!(ended.code, Some(2 | 3 | 125)), "{options:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{options:?}");
        assert!(!gate.work().join("ran").exists(), "{options:?}");
    }
}

fn refused(gate: &Gate, arguments: &[&str]) -> Ran {
    finish(start(&mut gate.command(arguments)))
}

/// `toolgate run OPTIONS -- true` by somebody who may not read everything: whoever runs the tests, or nobody for root.
fn as_ordinary_user(gate: &Gate, options: &[&str]) -> Option<Command> {
    if !geteuid().is_root() {
        return Some(gate.run_command(options, &["true"]));
    }
    if !has("setpriv") {
        return None;
    }
    // Nobody may not reach root's folders: neither cargo's nor the test's.
    let copy = gate.place("tmp").join("toolgate");
    // By another process: a test beside this one that forks while it is open for writing here would keep it from running.
    let copied = Command::new("cp").arg(binary()).arg(&copy).status();
    assert!(copied.is_ok_and(|status| status.success()), "it can be copied");
    let mut folder = copy.as_path();
    while let Some(parent) = folder
        .parent()
        .filter(|parent| parent.starts_with(std::env::temp_dir()) && *parent != std::env::temp_dir())
    {
        fs::set_permissions(parent, PermissionsExt::from_mode(0o755)).expect("its mode can be set");
        folder = parent;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
    command.arg("run").args(options).args(["--", "true"]);
    gate.settle(&mut command);
    command.env_remove("TOOLGATE_HOME").env_remove("HOME").env_remove("TMPDIR");
    Some(command)
}
