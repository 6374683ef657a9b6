//! Commands that run others: whatever a command line turns into, the walls of the profile are around it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use jail::{ChangeReport, Control, Limits, Names, Program, Strictness};
use sandbox::{Host, PlanRequest, Profile};

use super::network::Canary;
use crate::Try;
use crate::bench::{Need, find_program};
use crate::case::{Attempt, Case, Effect, Teeth};
use crate::launch::{Launcher, Mode, Ran, Run, Site, command_of};
use crate::payload::ATTACK_ARGUMENT;
use crate::place::make_executable;

/// A command line that looks harmless. `{strike}` is a program of the attacker's, `{shown}` the directory it is in.
struct Disguise {
    /// What people believed of it.
    promise: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

const DISGUISES: &[Disguise] = &[
    // A "safe" program runs another.
    Disguise {
        promise: "find with exec",
        program: "find",
        arguments: &["{shown}", "-maxdepth", "0", "-exec", "{strike}", ";"],
    },
    Disguise {
        promise: "sort with a compress program",
        program: "sort",
        arguments: &["-S", "32k", "--batch-size=2", "--compress-program={strike}", "{shown}/lines"],
    },
    Disguise {
        promise: "sort with an option cut short",
        program: "sort",
        arguments: &["-S", "32k", "--batch-size=2", "--compress-prog={strike}", "{shown}/lines"],
    },
    Disguise {
        promise: "tar with a command for each file",
        program: "tar",
        arguments: &["--to-command={strike}", "-xf", "{shown}/lines.tar"],
    },
    Disguise {
        promise: "tar with a checkpoint",
        program: "tar",
        arguments: &[
            "-cf",
            "/dev/null",
            "--checkpoint=1",
            "--checkpoint-action=exec={strike}",
            "{shown}/lines",
        ],
    },
    Disguise { promise: "awk with system", program: "awk", arguments: &["BEGIN { system(\"{strike}\") }"] },
    Disguise { promise: "sed with e", program: "sed", arguments: &["-n", "1e {strike}", "{shown}/lines"] },
    Disguise { promise: "xargs", program: "xargs", arguments: &["-a", "{shown}/one", "{strike}"] },
    Disguise { promise: "env", program: "env", arguments: &["{strike}"] },
    Disguise { promise: "env with a string", program: "env", arguments: &["-S", "{strike} x"] },
    Disguise { promise: "nice", program: "nice", arguments: &["{strike}"] },
    Disguise { promise: "timeout", program: "timeout", arguments: &["5", "{strike}"] },
    Disguise { promise: "nohup", program: "nohup", arguments: &["{strike}"] },
    Disguise { promise: "setsid", program: "setsid", arguments: &["-w", "{strike}"] },
    Disguise { promise: "git with an alias", program: "git", arguments: &["-c", "alias.x=!{strike}", "x"] },
    Disguise {
        promise: "git with a diff program",
        program: "git",
        arguments: &[
            "-c",
            "diff.external={strike}",
            "diff",
            "--no-index",
            "--ext-diff",
            "{shown}/one",
            "{shown}/two",
        ],
    },
    Disguise {
        promise: "ripgrep with a preprocessor",
        program: "rg",
        arguments: &["--pre", "{strike}", "struck", "{shown}/lines"],
    },
    Disguise { promise: "perl", program: "perl", arguments: &["-e", "system('{strike}')"] },
    Disguise {
        promise: "the loader of programs",
        program: "/lib64/ld-linux-x86-64.so.2",
        arguments: &["/bin/sh", "{strike}"],
    },
    // One program that is many.
    Disguise { promise: "busybox", program: "busybox", arguments: &["sh", "-c", "{strike}"] },
    // What a shell makes of a line.
    Disguise { promise: "a newline", program: "sh", arguments: &["-c", "true\n{strike}"] },
    Disguise { promise: "a single ampersand", program: "sh", arguments: &["-c", "true & {strike}"] },
    Disguise { promise: "an expansion", program: "sh", arguments: &["-c", "X={strike}; $X"] },
    Disguise { promise: "a substitution", program: "sh", arguments: &["-c", "true $({strike})"] },
    Disguise { promise: "a poisoned name", program: "sh", arguments: &["-c", "ls() { {strike}; }; ls"] },
    Disguise {
        promise: "more commands than are counted",
        program: "sh",
        arguments: &[
            "-c",
            "for i in 1 2 3 4 5 6 7 8 9; do true; true; true; true; true; true; done; {strike}",
        ],
    },
    Disguise { promise: "another shell", program: "/bin/bash", arguments: &["-c", "{strike}"] },
    Disguise { promise: "a known name elsewhere", program: "{shown}/ls", arguments: &[] },
];

pub(crate) fn cases() -> Vec<Case> {
    let case = |disguise: &'static Disguise| {
        let promise =
            format!("{} under inspect cannot write what is shown nor reach the host", disguise.promise);
        let is_ours = disguise.program.starts_with('{');
        Case {
            teeth: Teeth::Bare,
            needs: if is_ours { Vec::new() } else { vec![Need::Program(disguise.program)] },
            ..Case::new(
                "command-that-runs-others",
                promise,
                &[Control::Filesystem, Control::Network],
                move |site| strike(site, disguise),
            )
        }
    };
    let cwd = Case {
        teeth: Teeth::Bare,
        ..Case::new(
            "model-chosen-cwd",
            "a working directory does not widen what is shown",
            &[Control::Filesystem],
            choose_working_directory,
        )
    };
    DISGUISES.iter().map(case).chain([cwd]).collect()
}

/// A directory with what commands need, and the program that must not get through.
fn prepare(site: &Site<'_>, canary: &Canary) -> Try<PathBuf> {
    let shown = site.place.open_folder("shown")?;
    let lines: String = (0..20_000).map(|number| format!("{}\n", (number * 7919) % 20_011)).collect();
    site.place.file("shown/lines", &lines)?;
    site.place.file("shown/one", "one\n")?;
    site.place.file("shown/two", "two\n")?;
    if let Some(tar) = find_program("tar") {
        let archive = shown.join("lines.tar").into_os_string();
        let arguments = ["-C".into(), shown.clone().into_os_string(), "-cf".into(), archive, "one".into()];
        command_of(&tar, &arguments).status()?;
    }
    let tool = shown.join("tool");
    fs::hard_link(&site.bench.tool, &tool)?;
    let script = format!(
        "#!/bin/sh\necho struck\necho struck >&2\necho pwned > '{}'\n'{}' {ATTACK_ARGUMENT} connect {} >/dev/null\nexit 0\n",
        shown.join("pwned").display(),
        tool.display(),
        canary.address()?
    );
    for name in ["strike", "ls"] {
        make_executable(&site.place.file(&format!("shown/{name}"), &script)?)?;
    }
    Ok(shown)
}

fn strike(site: &Site<'_>, disguise: &Disguise) -> Try<Attempt> {
    let canary = Canary::new("127.0.0.1:0")?;
    let shown = prepare(site, &canary)?;
    let fill = |text: &str| {
        let filled = text.replace("{strike}", &shown.join("strike").to_string_lossy());
        filled.replace("{shown}", &shown.to_string_lossy())
    };
    let program = fill(disguise.program);
    let arguments: Vec<OsString> = disguise.arguments.iter().map(|text| fill(text).into()).collect();
    let ran = under_inspect(site, &program, arguments, &shown, &shown)?;
    // The attacker's program must have run: a command that failed before proves nothing.
    if !ran.stderr.contains("struck") && !ran.stdout.contains("struck") {
        return Err(ran.said_nothing());
    }
    let (written, reached) = (shown.join("pwned").exists(), canary.was_reached());
    let what = format!("written: {written}, reached: {reached}");
    // On the bare host it does both.
    let through = if matches!(site.mode, Mode::Bare) { written && reached } else { written || reached };
    Ok(ran.attempt(Effect::through_if(through, what)))
}

fn choose_working_directory(site: &Site<'_>) -> Try<Attempt> {
    let secret = crate::place::token();
    let outside = site.place.file("outside/secret", &secret)?;
    let shown = site.place.folder("shown")?;
    let cwd = site.place.path("outside");
    let arguments = vec!["secret".into(), outside.into_os_string()];
    let ran = under_inspect(site, "cat", arguments, &shown, &cwd)?;
    let read = ran.stdout.contains(&secret);
    Ok(ran.attempt(Effect::through_if(read, "cat of a file beside the working directory")))
}

/// The command in the plan that the profile makes of it.
fn under_inspect(
    site: &Site<'_>,
    program: &str,
    arguments: Vec<OsString>,
    shown: &Path,
    working_directory: &Path,
) -> Try<Ran> {
    if matches!(site.mode, Mode::Bare) {
        let working_directory = working_directory.to_owned();
        return site.run(Run { working_directory, ..Run::command(program, arguments) });
    }
    let request = PlanRequest {
        guarded: None,
        profile: Profile::Inspect,
        program: Program::Inside(program.into()),
        arguments,
        working_directory: working_directory.to_owned(),
        read: vec![shown.to_owned()],
        workspace: None,
        write: Vec::new(),
        variables: Vec::new(),
        names: Names::default(),
        limits: Limits::default(),
        changes: ChangeReport::Skip,
        strictness: Strictness::Report,
    };
    site.run_plan(request.into_plan(&Host::default())?, &Launcher::default())
}
