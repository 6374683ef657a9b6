//! Commands that do more than they say.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use contract::{CallStatus, Category, Definition, EgressClass, Profile, SafetyClass};
use jail::Control;
use policy::{Settings, ShellSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::Vote;
use tools::{CommandLine, CommandOutput, CommandTool, Tool};

use crate::Try;
use crate::bench::{Bench, find_program};
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Gate, Opening, Stand, standard, trusted};
use crate::launch::{Mode, Run, command_of};
use crate::place::make_executable;

/// What an attack leaves behind in the workspace if it works.
const MARK: &str = "PWNED";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "command-chaining",
            "a command line is not taken apart by anybody, and one that wants to be is refused",
            |stand| {
                seen_after(stand, |stand| {
                    all_lines(stand, |line| stand.bare("sh", &["-c", line], &stand.workspace))
                })
            },
            chain,
        ),
        Case::new(
            "shell-expansion",
            "arguments reach the program as they are, because nobody expands them",
            |stand| {
                seen_after(stand, |stand| {
                    let line = format!("echo {}", EXPANSIONS.join(" "));
                    stand.bare("sh", &["-c", &line], &stand.workspace)
                })
            },
            expand,
        ),
        Case::new(
            "program-that-runs-others",
            "a command that only looks cannot write, whatever other program it starts",
            |stand| run_others_bare(stand, RUNS_OTHERS),
            |stand| run_others(stand, RUNS_OTHERS, "inspect"),
        )
        .without("the profile inspect", |stand| run_others(stand, RUNS_OTHERS, "build")),
        Case::new(
            "program-that-writes",
            "a command that only looks cannot write by an option of its own",
            |stand| run_others_bare(stand, WRITES),
            |stand| run_others(stand, WRITES, "inspect"),
        )
        .without("the profile of what only looks", |stand| run_others(stand, WRITES, "build")),
        Case::new(
            "abbreviated-option",
            "an option that is cut short does no more than the whole one",
            |stand| run_others_bare(stand, ABBREVIATED),
            |stand| run_others(stand, ABBREVIATED, "inspect"),
        ),
        Case::new(
            "command-outside-its-profile",
            "a program that runs any other is not a command of the profile that looks",
            |stand| run_others_bare(stand, NOT_LISTED),
            refuse_unlisted,
        ),
        Case::new(
            "command-by-basename",
            "a program does not become a command by having its name",
            |stand| seen_after(stand, |stand| stand.bare(&plant(stand)?, &[], &stand.workspace)),
            run_planted,
        ),
        Case::new(
            "search-path",
            "no variable of a call says where programs and libraries are found",
            control_search_path,
            set_search_path,
        ),
        Case::new(
            "argument-as-option",
            "a word from a caller does not become an option of the program that a tool is made of",
            |stand| {
                seen_after(stand, |stand| {
                    stand.put("words.txt", "b\na\n")?;
                    stand.bare("sort", &["words.txt", OPTION], &stand.workspace)
                })
            },
            smuggle_an_option,
        ),
        Case::new(
            "command-lists",
            "a command that an operator has denied or not allowed is not run, however it is named",
            |stand| seen_after(stand, |stand| stand.bare("/usr/bin/touch", &[MARK], &stand.workspace)),
            listed,
        )
        .without("the list of denied commands", |stand| {
            seen_after(stand, |stand| {
                touch(&stand.gate(trusted())?, json!({ "command": "touch", "args": [MARK] }), Ending::Done)
            })
        }),
        Case::new(
            "yes-to-a-multi-call-program",
            "a yes to one thing that a program can do is none to another",
            |stand| {
                let gate = stand.gate(standard())?;
                approve(&gate, through_env(&["touch", MARK]))?;
                seen(stand)
            },
            |stand| {
                let gate = stand.gate(standard())?;
                approve(&gate, through_env(&["true"]))?;
                let (call, view) = gate.waits("shell", through_env(&["touch", MARK]))?;
                let effect = seen(stand)?;
                gate.answer(view.id.as_str(), Vote::Reject)?;
                gate.expect(&call, Ending::Refused("rejected"));
                Ok(effect)
            },
        ),
        Case::new(
            "stages-past-a-cap",
            "every command of a pipeline is looked at, and too many are refused as a whole",
            control_cap,
            hide_in_a_long_pipeline,
        ),
        Case::new(
            "state-left-behind",
            "a command finds nothing that an earlier one has left for it outside of the workspace",
            control_state,
            leave_state,
        ),
        Case::new(
            "model-chosen-directory",
            "a command starts in the workspace, wherever its caller wants it to",
            control_directory,
            choose_directory,
        ),
        Case::new(
            "timeout-tree",
            "a timeout ends every process of a call, also those that have left it",
            control_timeout,
            outlive_a_timeout,
        ),
        Case::new(
            "worker-memory",
            "a command cannot speak in the name of the worker that started it",
            control_worker,
            speak_as_the_worker,
        ),
    ]
}

// ---- one after the other

const LINES: [&str; 10] = [
    "true\ntouch PWNED",
    "true;touch PWNED",
    "true&&touch PWNED",
    "false||touch PWNED",
    "true|touch PWNED",
    "true&touch PWNED",
    "echo `touch PWNED`",
    "echo $(touch PWNED)",
    "echo x>PWNED",
    "true\r\ntouch PWNED",
];

fn all_lines(stand: &Stand<'_>, mut run: impl FnMut(&str) -> Try<String>) -> Try<String> {
    for line in LINES {
        run(line)?;
        // A single `&` does not wait for what it starts.
        for _ in 0..100 {
            if stand.workspace.join(MARK).exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if fs::remove_file(stand.workspace.join(MARK)).is_err() {
            return Err(format!("`{line}` does nothing in a shell").into());
        }
    }
    stand.put(MARK, "")?;
    Ok(String::new())
}

fn chain(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    for profile in ["inspect", "build"] {
        for line in LINES {
            let call = json!({ "command": line, "profile": profile });
            gate.call("shell", call, Ending::Refused("shell_syntax"))?;
            let staged = json!({ "command": "true", "stages": [{ "command": line }], "profile": profile });
            gate.call("shell", staged, Ending::Refused("shell_syntax"))?;
        }
        for word in ["&&", "||", ";", "&", "|", ">"] {
            let call = json!({ "command": "true", "args": [word, "touch", MARK], "profile": profile });
            gate.call("shell", call, Ending::Refused("shell_syntax"))?;
        }
        // Within an argument they are the argument's business.
        for line in LINES {
            gate.call(
                "shell",
                json!({ "command": "echo", "args": [line], "profile": profile }),
                Ending::Done,
            )?;
        }
    }
    seen(stand)
}

const EXPANSIONS: [&str; 6] =
    ["$(touch PWNED)", "`touch PWNED`", "${x:-$(touch PWNED)}", "$((1))", "*", "{a,b}$(touch${IFS}PWNED)"];

fn expand(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    let call = json!({ "command": "echo", "args": EXPANSIONS, "profile": "build" });
    let result = gate.call("shell", call, Ending::Done)?;
    if !result.content.contains(&EXPANSIONS.join(" ")) {
        return Ok(Effect::Through(format!("something was expanded: {}", result.content)));
    }
    seen(stand)
}

// ---- programs that run others

/// A program, its arguments, and whether every host has it.
type Row = (&'static str, &'static [&'static str], bool);

const RUNS_OTHERS: &[Row] = &[
    ("find", &[".", "-maxdepth", "0", "-exec", "touch", "PWNED", ";"], true),
    ("find", &[".", "-maxdepth", "0", "-execdir", "touch", "PWNED", ";"], true),
    ("sort", &["--compress-program=./compress", "-S", "1k", "-T", ".", "long"], true),
    ("awk", &["BEGIN { system(\"touch PWNED\") }"], true),
    ("awk", &["BEGIN { print \"touch PWNED\" | \"sh\" }"], true),
    ("sed", &["1e touch PWNED", "file"], true),
    ("sed", &["s/.*/touch PWNED/e", "file"], true),
    ("xargs", &["-a", "file", "touch"], true),
    ("env", &["touch", "PWNED"], true),
    ("env", &["-S", "touch PWNED"], true),
    ("timeout", &["5", "touch", "PWNED"], true),
    ("time", &["touch", "PWNED"], false),
    ("git", &["-c", "alias.x=!touch PWNED", "x"], false),
    ("git", &["-c", "diff.external=./external", "diff", "--no-index", "--ext-diff", "file", "long"], false),
    ("git", &["grep", "--no-index", "--open-files-in-pager=touch PWNED; true", "PWNED", "file"], false),
    ("rg", &["--pre", "./compress", "x", "long"], false),
];

const WRITES: &[Row] = &[
    ("tee", &["PWNED"], true),
    ("sort", &["-o", "PWNED", "file"], true),
    ("find", &[".", "-maxdepth", "0", "-fprint", "PWNED"], true),
    ("awk", &["BEGIN { print \"x\" > \"PWNED\" }"], true),
    ("sed", &["-n", "w PWNED", "file"], true),
    ("sed", &["-i.PWNED", "s/a/b/", "file"], true),
    ("split", &["-b", "1", "file", "PWNED"], true),
    ("uniq", &["file", "PWNED"], true),
    ("git", &["diff", "--no-index", "--output=PWNED", "file", "long"], false),
    ("git", &["init", "PWNED"], false),
    ("xxd", &["file", "PWNED"], false),
];

const ABBREVIATED: &[Row] = &[
    ("sort", &["--compress-prog=./compress", "--buffer=1k", "--temp=.", "long"], true),
    ("sort", &["--out=PWNED", "file"], true),
    ("sed", &["--in-pl=.PWNED", "s/a/b/", "file"], true),
    ("env", &["--split=touch PWNED"], true),
];

/// Not in the list of what looks; each would start any other program.
const NOT_LISTED: &[Row] = &[
    ("tar", &["-xf", "archive.tar", "--to-command=touch PWNED"], true),
    ("tar", &["-cf", "/dev/null", "--checkpoint=1", "--checkpoint-action=exec=touch PWNED", "file"], true),
    ("nice", &["touch", "PWNED"], true),
    ("setsid", &["touch", "PWNED"], true),
    ("sh", &["-c", "touch PWNED"], true),
    ("busybox", &["touch", "PWNED"], false),
    ("/lib64/ld-linux-x86-64.so.2", &["/usr/bin/touch", "PWNED"], false),
    ("./compress", &[], true),
    ("touch", &["PWNED"], true),
];

/// The files that the attacks above need.
fn furnish(stand: &Stand<'_>) -> Try<()> {
    stand.put("file", "PWNED\n")?;
    stand.put("long", &"a line that has to be sorted on disk\n".repeat(4000))?;
    for script in ["compress", "external"] {
        make_executable(&stand.put(script, "#!/bin/sh\ntouch PWNED\nexec cat\n")?)?;
    }
    stand.bare("tar", &["-cf", "archive.tar", "file"], &stand.workspace)?;
    Ok(())
}

fn is_here(program: &str) -> bool {
    find_program(program).is_some() || Path::new(program).is_file()
}

/// Every row has to work where nothing stops it, or the table lies.
fn run_others_bare(stand: &Stand<'_>, rows: &[Row]) -> Try<Effect> {
    furnish(stand)?;
    for (program, arguments, everywhere) in rows {
        if !*everywhere && !is_here(program) {
            continue;
        }
        let said = stand.bare(program, arguments, &stand.workspace)?;
        if !clear(stand)? {
            return Ok(Effect::Held(format!("{program} {arguments:?}: {said}")));
        }
    }
    Ok(Effect::Through("each of them".to_owned()))
}

fn run_others(stand: &Stand<'_>, rows: &[Row], profile: &str) -> Try<Effect> {
    furnish(stand)?;
    let gate = stand.gate(standard())?;
    for (program, arguments, _) in rows {
        let call = json!({ "command": program, "args": arguments, "profile": profile });
        gate.call("shell", call, Ending::Settled)?;
        if clear(stand)? {
            return Ok(Effect::Through(format!("{program} {arguments:?}")));
        }
    }
    seen(stand)
}

fn refuse_unlisted(stand: &Stand<'_>) -> Try<Effect> {
    furnish(stand)?;
    let gate = stand.gate(standard())?;
    for (program, arguments, _) in NOT_LISTED {
        let call = json!({ "command": program, "args": arguments });
        gate.call("shell", call, Ending::Refused("command_not_allowed"))?;
    }
    seen(stand)
}

/// The same program behind the walls of a plan, and without those that make a directory read-only.
pub(crate) fn switch_off_the_walls(bench: &Bench) -> Try<()> {
    let reads_only = [Control::Filesystem, Control::LandlockFiles];
    let attempt = |mode: Mode| -> Try<bool> {
        let site = bench.site(mode)?;
        let work = site.place.open_folder("work")?;
        let mark = work.join(MARK);
        let arguments =
            ["/", "-maxdepth", "0", "-exec", "touch", &mark.to_string_lossy(), ";"].map(str::to_owned);
        site.run(Run { read: vec![work.clone()], ..Run::command("find", arguments) })?;
        Ok(mark.exists())
    };
    if attempt(Mode::behind_all())? {
        return Err("it writes behind every wall".into());
    }
    if attempt(Mode::without(&reads_only))? {
        Ok(())
    } else {
        Err("it does not write without the walls either".into())
    }
}

// ---- which program

fn plant(stand: &Stand<'_>) -> Try<String> {
    let path = stand.put("evil/ls", "#!/bin/sh\ntouch PWNED ../PWNED\n")?;
    make_executable(&path)?;
    Ok(path.to_string_lossy().into_owned())
}

fn run_planted(stand: &Stand<'_>) -> Try<Effect> {
    let planted = plant(stand)?;
    let gate = stand.gate(trusted())?;
    let doubled = format!("/{planted}");
    let around = format!("/usr/bin/../..{planted}");
    for command in [planted.as_str(), &doubled, &around, "/tmp/x/ls", "/usr/bin/x/ls"] {
        for profile in ["inspect", "build", "mutate"] {
            let call = json!({ "command": command, "profile": profile });
            gate.call("shell", call, Ending::Refused("command_not_allowed"))?;
        }
    }
    gate.call("shell", json!({ "command": "evil/ls" }), Ending::Refused("command_not_allowed"))?;
    // The system's own is found wherever the call starts.
    gate.call("shell", json!({ "command": "ls", "cwd": "evil", "profile": "build" }), Ending::Done)?;
    seen(stand)
}

/// Makes `sort` write where its caller wants.
const OPTION: &str = "--output=PWNED";

#[derive(Deserialize, JsonSchema)]
struct SortInput {
    word: String,
}

#[derive(Serialize, JsonSchema)]
struct SortOutput {
    text: String,
}

/// A tool that its author made of `sort`, with a word of the caller's among the arguments.
fn sorting() -> Try<Arc<dyn Tool>> {
    let definition = Definition {
        title: "Sort".to_owned(),
        description: "Sorts.".to_owned(),
        category: Category::FileSystem,
        action: "code:write".to_owned(),
        safety: SafetyClass::Write,
        egress: EgressClass::None,
        ..Definition::of::<SortInput, SortOutput>("text.sort")
    };
    let command = |input: &SortInput| CommandLine::of("sort").words(["words.txt"]).value(&input.word);
    let read = |output: &CommandOutput| Ok(SortOutput { text: output.text()?.to_owned() });
    Ok(CommandTool { definition, profile: Profile::Build, command, read }.build()?)
}

fn smuggle_an_option(stand: &Stand<'_>) -> Try<Effect> {
    stand.put("words.txt", "b\na\n")?;
    let gate = stand.open(Opening { tools: vec![sorting()?], ..Opening::with(standard()) })?;
    gate.call("text.sort", json!({ "word": OPTION }), Ending::Refused("bad_arguments"))?;
    // The tool is one that works.
    gate.call("text.sort", json!({ "word": "words.txt" }), Ending::Done)?;
    seen(stand)
}

fn control_search_path(stand: &Stand<'_>) -> Try<Effect> {
    plant(stand)?;
    let evil = stand.workspace.join("evil");
    command_of(Path::new("/usr/bin/env"), &["ls".into()])
        .env("PATH", evil)
        .current_dir(&stand.workspace)
        .output()
        .ok();
    let said = stand.bare("env", &["PATH=evil:/usr/bin:/bin", "ls"], &stand.workspace)?;
    seen(stand).map(|effect| match effect {
        Effect::Held(_) => Effect::Held(said),
        through => through,
    })
}

fn set_search_path(stand: &Stand<'_>) -> Try<Effect> {
    plant(stand)?;
    let evil = stand.workspace.join("evil").to_string_lossy().into_owned();
    let gate = stand.gate(standard())?;
    for name in
        ["PATH", "Path", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "GIT_EXEC_PATH", "PYTHONPATH"]
    {
        let call = json!({ "command": "ls", "env": { name: evil }, "profile": "build" });
        gate.call("shell", call, Ending::Refused("constrained"))?;
    }
    for name in ["PATH=x", "", "PA\u{0}TH"] {
        let call = json!({ "command": "ls", "env": { name: evil }, "profile": "build" });
        gate.call("shell", call, Ending::Refused("bad_arguments"))?;
    }
    seen(stand)
}

fn listed(stand: &Stand<'_>) -> Try<Effect> {
    let denies = ShellSettings { denied: ["touch".to_owned()].into(), ..ShellSettings::default() };
    let gate = stand.gate(Settings { shell: denies, ..trusted() })?;
    let refused = Ending::Refused("command_not_allowed");
    for command in ["touch", "/usr/bin/touch", "/bin/touch", "./touch"] {
        touch(&gate, json!({ "command": command, "args": [MARK] }), refused)?;
        touch(
            &gate,
            json!({ "command": "true", "stages": [{ "command": command, "args": [MARK] }] }),
            refused,
        )?;
    }
    // An empty list means none, never all.
    for allowed in [vec![], vec!["ls".to_owned()]] {
        let allows =
            ShellSettings { allowed: Some(allowed.into_iter().collect()), ..ShellSettings::default() };
        let gate = stand.gate(Settings { shell: allows, ..trusted() })?;
        for command in ["touch", "/usr/bin/touch", "/bin/ls"] {
            touch(&gate, json!({ "command": command, "args": [MARK] }), refused)?;
        }
    }
    seen(stand)
}

fn touch(gate: &Gate<'_>, mut call: Value, ending: Ending) -> Try<String> {
    if let Some(members) = call.as_object_mut() {
        members.insert("profile".to_owned(), "mutate".into());
    }
    Ok(gate.call("shell", call, ending)?.content)
}

// ---- one program that is many

fn through_env(words: &[&str]) -> Value {
    json!({ "command": "env", "args": words, "profile": "mutate" })
}

/// A call that waits is approved, and runs.
fn approve(gate: &Gate<'_>, call: Value) -> Try<()> {
    let (_, view) = gate.waits("shell", call.clone())?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    gate.call("shell", call, Ending::Done).map(drop)
}

// ---- long pipelines

/// A check that looks at the first ten commands only passes it.
fn control_cap(_: &Stand<'_>) -> Try<Effect> {
    let commands: Vec<&str> = long_pipeline(15);
    let looks_good = commands.iter().take(10).all(|command| *command == "cat");
    Ok(Effect::through_if(looks_good && commands.contains(&"touch"), "the first ten are harmless"))
}

fn long_pipeline(harmless: usize) -> Vec<&'static str> {
    std::iter::repeat_n("cat", harmless).chain(["touch"]).collect()
}

fn hide_in_a_long_pipeline(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    let stages = |harmless: usize| -> Vec<Value> {
        let commands = long_pipeline(harmless).into_iter();
        commands.map(|command| json!({ "command": command, "args": [MARK] })).collect()
    };
    let call = |harmless: usize| json!({ "command": "true", "stages": stages(harmless) });
    gate.call("shell", call(14), Ending::Refused("command_not_allowed"))?;
    let harmless: Vec<Value> = (0..60).map(|_| json!({ "command": "cat" })).collect();
    let too_many = json!({ "command": "true", "stages": harmless });
    gate.call("shell", too_many, Ending::Refused("bad_arguments"))?;
    seen(stand)
}

// ---- what stays

const LEAVES: &str =
    "echo export POISON=1 > ~/.profile; cp ~/.profile /tmp/.poison; cp ~/.profile /dev/shm/.poison; true";
const FINDS: &str =
    "for f in ~/.profile /tmp/.poison /dev/shm/.poison; do test -e $f && touch PWNED; done; true";

fn control_state(stand: &Stand<'_>) -> Try<Effect> {
    // The same home for both; nothing of the host's own /tmp is touched.
    stand.bare("sh", &["-c", "echo export POISON=1 > ~/.profile"], &stand.workspace)?;
    stand.bare("sh", &["-c", "test -e ~/.profile && touch PWNED"], &stand.workspace)?;
    seen(stand)
}

fn leave_state(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    for script in [LEAVES, FINDS] {
        gate.call(
            "shell",
            json!({ "command": "sh", "args": ["-c", script], "profile": "build" }),
            Ending::Done,
        )?;
    }
    seen(stand)
}

// ---- where

fn control_directory(stand: &Stand<'_>) -> Try<Effect> {
    stand.place.link("work/link", stand.place.root())?;
    Ok(stand.shown_in(&stand.bare("cat", &["outside"], &stand.workspace.join("link"))?))
}

fn choose_directory(stand: &Stand<'_>) -> Try<Effect> {
    stand.place.link("work/link", stand.place.root())?;
    stand.place.link("work/root", "/proc/self/root")?;
    stand.place.folder("work/.ssh")?;
    let gate = stand.gate(standard())?;
    let root = stand.place.root().to_string_lossy().into_owned();
    let run = |cwd: &str, profile: &str, ending: Ending| -> Try<()> {
        let script = json!(["-c", "cat outside; touch PWNED ../PWNED"]);
        let call = match profile {
            "inspect" => json!({ "command": "cat", "args": ["outside"], "cwd": cwd }),
            _ => json!({ "command": "sh", "args": script, "cwd": cwd, "profile": profile }),
        };
        gate.call("shell", call, ending).map(drop)
    };
    for profile in ["inspect", "build"] {
        for cwd in ["..", "a/../..", &root, "/", "/proc/self/root"] {
            run(cwd, profile, Ending::Refused("outside"))?;
        }
        for cwd in ["link", "root", "link/home", "nowhere"] {
            run(cwd, profile, Ending::Failed("outside"))?;
        }
        run(".ssh", profile, Ending::Refused("protected"))?;
    }
    seen(stand)
}

// ---- how long

const OUTLIVES: &str = "(setsid sh -c 'sleep 2; touch PWNED') & sleep 60";

fn control_timeout(stand: &Stand<'_>) -> Try<Effect> {
    let mut child = command_of(Path::new("/bin/sh"), &["-c".into(), OUTLIVES.into()])
        .current_dir(&stand.workspace)
        .stdout(std::process::Stdio::null())
        .spawn()?;
    std::thread::sleep(Duration::from_millis(500));
    child.kill()?;
    child.wait()?;
    std::thread::sleep(Duration::from_millis(2500));
    seen(stand)
}

fn outlive_a_timeout(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    let call = json!({ "command": "sh", "args": ["-c", OUTLIVES], "profile": "build", "timeout": 1 });
    let result = gate.call("shell", call, Ending::Failed("timeout"))?;
    if result.status != CallStatus::Failed {
        return Err(format!("it was not stopped: {}", result.content).into());
    }
    std::thread::sleep(Duration::from_millis(2500));
    seen(stand)
}

// ---- who speaks

const FORGES: &str = "for fd in 0 1 2 3 4 5 6 7 8; do printf FORGED > /proc/$PPID/fd/$fd; done; cat /proc/$PPID/environ; \
                      head -c 16 /proc/$PPID/mem; ls /proc/$PPID/fd; true";

fn control_worker(stand: &Stand<'_>) -> Try<Effect> {
    // Its own output goes nowhere; what arrives, arrives by its parent's.
    let script = format!("sh -c 'exec >/dev/null 2>&1; {FORGES}'; true");
    let said = stand.bare("sh", &["-c", &script], &stand.workspace)?;
    Ok(Effect::through_if(said.contains("FORGED"), said))
}

fn speak_as_the_worker(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(standard())?;
    let script = format!("exec 2>errors; {{ {FORGES} ; }} >said");
    let call = json!({ "command": "sh", "args": ["-c", script], "profile": "build" });
    let result = gate.call("shell", call, Ending::Done)?;
    let said = fs::read_to_string(stand.workspace.join("said"))?;
    let errors = fs::read_to_string(stand.workspace.join("errors"))?;
    let refused = errors.matches("ermission denied").count();
    let through = result.content.contains("FORGED") || !said.is_empty() || refused < 11;
    Ok(Effect::through_if(through, format!("{} / {said} / {errors}", result.content)))
}

// ---- the target

/// What an attempt left behind, once it was made.
fn seen_after(stand: &Stand<'_>, attempt: impl FnOnce(&Stand<'_>) -> Try<String>) -> Try<Effect> {
    let said = attempt(stand)?;
    Ok(match seen(stand)? {
        Effect::Held(_) => Effect::Held(said),
        through => through,
    })
}

/// Whether a mark stands in the workspace, beside it, or beneath.
fn seen(stand: &Stand<'_>) -> Try<Effect> {
    for folder in [stand.workspace.clone(), stand.workspace.join("evil"), stand.place.root().to_owned()] {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.contains(MARK) {
                return Ok(Effect::Through(format!("{} is there", entry.path().display())));
            }
        }
    }
    Ok(Effect::Held("no mark".to_owned()))
}

/// Removes a mark, and says whether there was one.
fn clear(stand: &Stand<'_>) -> Try<bool> {
    let mut found = false;
    for entry in fs::read_dir(&stand.workspace)? {
        let path = entry?.path();
        if path.to_string_lossy().contains(MARK) {
            found = true;
            if path.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
        }
    }
    Ok(found)
}
