//! Paths that lead elsewhere, and names that mean something to the host.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use contract::CallStatus;
use policy::{FileSettings, Settings};
use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags, mknodat, renameat_with};
use serde_json::{Value, json};

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Gate, Stand, standard, trusted};
use crate::place::make_executable;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "path-escape",
            "a path that leads out of the workspace is refused by every tool, however it is written",
            |stand| {
                let paths = ["../outside".to_owned(), stand.outside.to_string_lossy().into_owned()];
                read_bare(stand, &paths.map(|path| stand.workspace.join(path)))
            },
            escape,
        ),
        Case::new(
            "prefix-confusion",
            "a neighbour whose name begins like the workspace is not in it",
            control_prefix,
            confuse_prefix,
        ),
        Case::new(
            "followed-link",
            "a link out of the workspace is not followed, whatever the settings",
            |stand| {
                let links = links_out(stand)?;
                read_bare(
                    stand,
                    &links.into_iter().map(|link| stand.workspace.join(link)).collect::<Vec<_>>(),
                )
            },
            follow_out,
        ),
        Case::new(
            "link-inside",
            "where links are not followed, none is, and a name that is hidden stays so where they are",
            |stand| {
                links_inside(stand)?;
                read_bare(stand, &[stand.workspace.join("plain"), stand.workspace.join("hides")])
            },
            |stand| follow_inside(stand, false),
        )
        .without("the refusal of links", |stand| {
            links_inside(stand)?;
            let gate = stand.gate(following(trusted()))?;
            let result = gate.call("fs.read", json!({ "path": "plain" }), Ending::Done)?;
            Ok(stand.shown_in(&result.content))
        }),
        Case::new(
            "symlink-swap",
            "a directory or file that is swapped for a link in the middle of a call leads nowhere",
            control_swap,
            swap,
        ),
        Case::new(
            "hard-link",
            "a file that has another name outside is neither read nor changed",
            |stand| {
                fs::hard_link(&stand.outside, stand.workspace.join("linked"))?;
                read_bare(stand, &[stand.workspace.join("linked")])
            },
            link_hard,
        ),
        Case::new(
            "special-file",
            "a pipe, a socket or a device is not a file, and nobody waits for it",
            |stand| {
                let _writer = pipe_with_secret(stand)?;
                let mut buffer = vec![0; stand.secret.len()];
                std::io::Read::read_exact(&mut fs::File::open(stand.workspace.join("pipe"))?, &mut buffer)?;
                Ok(stand.shown_in(&String::from_utf8_lossy(&buffer)))
            },
            open_special,
        ),
        Case::new(
            "odd-name",
            "a name that is not text hides nothing and reveals nothing",
            |stand| {
                let path = put_odd(stand)?;
                read_bare(stand, &[path])
            },
            name_oddly,
        ),
        Case::new(
            "hidden-file",
            "what usually holds credentials is read by no tool and by no command",
            |stand| {
                put_secrets(stand)?;
                Ok(stand.shown_in(&stand.bare("grep", &["-r", "token", "."], &stand.workspace)?))
            },
            read_hidden,
        ),
        Case::new(
            "git-directory-write",
            "nothing in a git directory is written by a tool for files, in whatever case its name is",
            control_hook,
            write_hook,
        ),
        Case::new(
            "planted-bare-repository",
            "no repository is made file by file that a person's git would obey",
            |stand| {
                for (name, content) in repository(stand) {
                    stand.put(&format!("sub/{name}"), &content)?;
                }
                enter(stand, "sub")
            },
            plant_repository,
        ),
        Case::new(
            "guarded-by-move",
            "a directory is not moved to where its content would be obeyed",
            |stand| {
                stand.put("x/git/config", "[core]\n\tpager = touch PWNED\n")?;
                fs::rename(stand.workspace.join("x"), stand.workspace.join(".config"))?;
                obeyed(stand)
            },
            move_to_be_obeyed,
        ),
        Case::new(
            "protected-name-made",
            "a file that the host obeys is not made where there was none",
            |stand| {
                stand.bare("sh", &["-c", "echo touch PWNED > .envrc"], &stand.workspace)?;
                obeyed(stand)
            },
            make_protected,
        ),
        Case::new(
            "read-only-files",
            "where files are read-only, no tool for files changes one",
            |stand| {
                fs::write(stand.workspace.join("made"), "x")?;
                obeyed(stand)
            },
            |stand| change_read_only(stand, true),
        )
        .without("read-only files", |stand| change_read_only(stand, false)),
    ]
}

// ---- every tool

/// Every call that names a path, with this one.
fn calls_with(path: &str) -> Vec<(&'static str, Value)> {
    let reads = ["fs.read", "fs.stat", "fs.list"].into_iter().map(|tool| (tool, json!({ "path": path })));
    let search = ("fs.search", json!({ "path": path, "pattern": "token" }));
    reads.chain([search]).chain(changes_with(path)).collect()
}

/// Every call that changes what has this path.
fn changes_with(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("fs.write", json!({ "path": path, "content": "PWNED" })),
        ("fs.append", json!({ "path": path, "content": "PWNED" })),
        ("fs.edit", json!({ "path": path, "old": "token", "new": "PWNED" })),
        ("fs.mkdir", json!({ "path": path, "parents": true })),
        ("fs.delete", json!({ "path": path, "recursive": true })),
        ("fs.move", json!({ "from": path, "to": "taken" })),
        ("fs.move", json!({ "from": "mine", "to": path, "overwrite": true })),
    ]
}

/// Makes every call, each of which has to end so.
fn all_end(gate: &Gate<'_>, calls: Vec<(&'static str, Value)>, ending: Ending) -> Try<()> {
    calls.into_iter().try_for_each(|(tool, arguments)| gate.call(tool, arguments, ending).map(drop))
}

fn read_bare(stand: &Stand<'_>, paths: &[PathBuf]) -> Try<Effect> {
    for path in paths {
        let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        if !text.contains(&stand.secret) {
            return Ok(Effect::Held(format!("{}: {text}", path.display())));
        }
    }
    Ok(Effect::Through("each of them was read".to_owned()))
}

/// Whether nothing was taken from or brought to where it does not belong.
fn untouched(stand: &Stand<'_>) -> Try<Effect> {
    let taken = stand.workspace.join("taken").exists();
    let mine = !stand.workspace.join("mine").exists();
    Ok(Effect::through_if(taken || mine, "something was moved"))
}

fn escape(stand: &Stand<'_>) -> Try<Effect> {
    stand.put("mine", "x")?;
    stand.place.folder("work/sub")?;
    let gate = stand.gate(trusted())?;
    let outside = stand.outside.to_string_lossy().into_owned();
    let magic = format!("/proc/self/root{outside}");
    for path in
        ["../outside", "sub/../../outside", "./../outside", "sub/..", &outside, &magic, "//etc/passwd", ".."]
    {
        all_end(&gate, calls_with(path), Ending::Refused("outside"))?;
    }
    let (long, deep) = ("x".repeat(256), "x/".repeat(2049));
    for path in ["a\0b", "mine\0.txt", "", &long, &deep] {
        all_end(&gate, calls_with(path), Ending::Refused("bad_arguments"))?;
    }
    untouched(stand)
}

fn control_prefix(stand: &Stand<'_>) -> Try<Effect> {
    let evil = stand.place.file("work-evil/file", &stand.secret)?;
    let looks_inside = evil.to_string_lossy().starts_with(&*stand.workspace.to_string_lossy());
    if looks_inside { read_bare(stand, &[evil]) } else { Ok(Effect::Held("not by its text".to_owned())) }
}

fn confuse_prefix(stand: &Stand<'_>) -> Try<Effect> {
    stand.put("mine", "x")?;
    let evil = stand.place.file("work-evil/file", &stand.secret)?;
    stand.place.link("work/beside", stand.place.path("work-evil"))?;
    stand.place.link("work/beneath", stand.workspace.join("../work-evil"))?;
    let gate = stand.gate(following(trusted()))?;
    all_end(&gate, calls_with(&evil.to_string_lossy()), Ending::Refused("outside"))?;
    all_end(&gate, calls_with("../work-evil/file"), Ending::Refused("outside"))?;
    for link in ["beside/file", "beneath/file"] {
        all_end(&gate, calls_with(link), Ending::Failed("outside"))?;
    }
    read_after(stand, &evil)
}

fn read_after(stand: &Stand<'_>, path: &Path) -> Try<Effect> {
    let kept = fs::read_to_string(path)? == stand.secret;
    Ok(if kept { untouched(stand)? } else { Effect::Through("the file has changed".to_owned()) })
}

// ---- links

fn following(settings: Settings) -> Settings {
    Settings { files: FileSettings { follow_links: true, ..FileSettings::default() }, ..settings }
}

/// Links in the workspace that lead to the file outside.
fn links_out(stand: &Stand<'_>) -> Try<[&'static str; 6]> {
    stand.place.link("work/file", &stand.outside)?;
    stand.place.link("work/up", "../outside")?;
    stand.place.link("work/folder", stand.place.root())?;
    stand.place.link("work/root", "/proc/self/root")?;
    stand.place.link("work/first", "second")?;
    stand.place.link("work/second", "../outside")?;
    let through_root = stand.outside.strip_prefix("/")?.to_string_lossy().into_owned();
    stand.place.link("work/magic", Path::new("/proc/self/root").join(through_root))?;
    Ok(["file", "up", "folder/outside", "first", "magic", "second"])
}

fn follow_out(stand: &Stand<'_>) -> Try<Effect> {
    stand.put("mine", "x")?;
    let mut links: Vec<String> = links_out(stand)?.map(str::to_owned).into();
    links.push(format!("root{}", stand.outside.display()));
    for settings in [trusted(), following(trusted())] {
        let gate = stand.gate(settings)?;
        for link in &links {
            for tool in ["fs.read", "fs.search", "fs.append", "fs.edit"] {
                let call = calls_with(link).into_iter().find(|(name, _)| *name == tool);
                let (_, arguments) = call.ok_or("no such call")?;
                gate.call(tool, arguments, Ending::Failed("outside"))?;
            }
        }
        // What goes through the directories beneath a link, and what would end there.
        for call in calls_with("folder/outside").into_iter().chain(calls_with("folder/new")) {
            gate.call(call.0, call.1, Ending::Failed("outside"))?;
        }
    }
    if stand.place.path("new").exists() {
        return Ok(Effect::Through("something was made outside".to_owned()));
    }
    // Whoever writes to a link replaces the link, and deleting one deletes no more.
    let gate = stand.gate(trusted())?;
    for tool in ["fs.write", "fs.delete"] {
        let call = calls_with("file").into_iter().find(|(name, _)| *name == tool);
        let (_, arguments) = call.ok_or("no such call")?;
        gate.call(tool, arguments, Ending::Settled)?;
    }
    untouched(stand)
}

fn links_inside(stand: &Stand<'_>) -> Try<()> {
    stand.put("real", &stand.secret)?;
    stand.put(".env", &stand.secret)?;
    stand.place.link("work/plain", "real")?;
    stand.place.link("work/hides", ".env")?;
    // What is hidden twice, or lies in what is hidden, is still hidden.
    stand.place.link("work/.env.local", ".env")?;
    for name in [".env", ".envrc", ".git/config", "deep/.vscode/tasks.json"] {
        stand.put(&format!("folder/{name}"), &stand.secret)?;
    }
    stand.place.link("work/.env.folder", "folder")?;
    Ok(())
}

fn follow_inside(stand: &Stand<'_>, follow: bool) -> Try<Effect> {
    links_inside(stand)?;
    let gate = stand.gate(if follow { following(standard()) } else { standard() })?;
    gate.call("fs.read", json!({ "path": "plain" }), Ending::Failed("outside"))?;
    let gate = stand.gate(following(standard()))?;
    gate.call("fs.read", json!({ "path": "hides" }), Ending::Failed("protected"))?;
    gate.call("fs.read", json!({ "path": ".env.local" }), Ending::Refused("protected"))?;
    Ok(Effect::Held("no link was followed".to_owned()))
}

/// Does something again and again while two names of the workspace are exchanged without a pause.
fn while_swapping(
    stand: &Stand<'_>,
    time: Duration,
    mut act: impl FnMut() -> Try<bool>,
) -> Try<(usize, usize)> {
    let over = AtomicBool::new(false);
    let [one, other] = ["swap", "link"].map(|name| stand.workspace.join(name));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
            }
        });
        let until = Instant::now() + time;
        let (mut tries, mut found) = (0, 0);
        let mut result = Ok(());
        while Instant::now() < until && result.is_ok() {
            tries += 1;
            match act() {
                Ok(hit) => found += usize::from(hit),
                Err(error) => result = Err(error),
            }
        }
        over.store(true, Ordering::Relaxed);
        result.map(|()| (tries, found))
    })
}

fn set_up_swap(stand: &Stand<'_>) -> Try<PathBuf> {
    let target = stand.place.file("target/file", &stand.secret)?;
    stand.put("swap/file", "inside")?;
    stand.place.link("work/link", stand.place.path("target"))?;
    Ok(target)
}

/// Looking before opening: the link is seen to be none, and is one when it is used.
fn control_swap(stand: &Stand<'_>) -> Try<Effect> {
    set_up_swap(stand)?;
    let folder = stand.workspace.join("swap");
    let (tries, found) = while_swapping(stand, Duration::from_secs(1), || {
        let is_folder = fs::symlink_metadata(&folder).is_ok_and(|status| status.is_dir());
        let text = if is_folder {
            fs::read_to_string(folder.join("file")).unwrap_or_default()
        } else {
            String::new()
        };
        Ok(text.contains(&stand.secret))
    })?;
    Ok(Effect::through_if(found > 0, format!("{found} of {tries}")))
}

fn swap(stand: &Stand<'_>) -> Try<Effect> {
    let target = set_up_swap(stand)?;
    let gate = stand.gate(trusted())?;
    let calls = [
        ("fs.read", json!({ "path": "swap/file" })),
        ("fs.write", json!({ "path": "swap/file", "content": "inside" })),
        ("fs.append", json!({ "path": "swap/file", "content": "" })),
        ("fs.search", json!({ "path": "swap", "pattern": "token" })),
        ("fs.mkdir", json!({ "path": "swap/new", "parents": true })),
    ];
    // Workers that are there before the race begins, so that it is theirs.
    gate.call("fs.read", json!({ "path": "swap/file" }), Ending::Done)?;
    gate.call("fs.write", json!({ "path": "ready", "content": "" }), Ending::Done)?;
    let mut turn = calls.iter().cycle();
    let (tries, found) = while_swapping(stand, Duration::from_millis(1500), || {
        let (tool, arguments) = turn.next().ok_or("no call")?;
        let result = gate.call(tool, arguments.clone(), Ending::Settled)?;
        Ok(result.status == CallStatus::Completed)
    })?;
    if found == 0 || found == tries {
        return Err(format!("no race was run: {found} of {tries} calls found the directory").into());
    }
    let names: Vec<_> =
        fs::read_dir(stand.place.path("target"))?.flatten().map(|entry| entry.file_name()).collect();
    let kept = names.len() == 1 && fs::read_to_string(target)? == stand.secret;
    Ok(Effect::through_if(!kept, format!("{names:?} is outside")))
}

fn link_hard(stand: &Stand<'_>) -> Try<Effect> {
    fs::hard_link(&stand.outside, stand.workspace.join("linked"))?;
    let gate = stand.gate(trusted())?;
    gate.call("fs.read", json!({ "path": "linked" }), Ending::Failed("outside"))?;
    gate.call("fs.append", json!({ "path": "linked", "content": "PWNED" }), Ending::Failed("outside"))?;
    gate.call(
        "fs.edit",
        json!({ "path": "linked", "old": "token", "new": "PWNED" }),
        Ending::Failed("outside"),
    )?;
    gate.call("fs.search", json!({ "pattern": "token" }), Ending::Done)?;
    // To write is to replace the name, which leaves the other one as it is.
    gate.call("fs.write", json!({ "path": "linked", "content": "PWNED" }), Ending::Settled)?;
    Ok(Effect::Held("neither read nor changed".to_owned()))
}

// ---- what is no file

/// A pipe that a reader would get the secret from at once.
fn pipe_with_secret(stand: &Stand<'_>) -> Try<fs::File> {
    let path = stand.workspace.join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o644), 0)?;
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits())?;
    let mut both = fs::OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open(path)?;
    both.write_all(stand.secret.as_bytes())?;
    Ok(both)
}

fn open_special(stand: &Stand<'_>) -> Try<Effect> {
    let mut writer = pipe_with_secret(stand)?;
    let listener = std::os::unix::net::UnixListener::bind(stand.workspace.join("socket"))?;
    mknodat(CWD, stand.workspace.join("empty"), FileType::Fifo, Mode::from_raw_mode(0o644), 0)?;
    // Only root can make one, and only where devices may be made.
    let zero = rustix::fs::makedev(1, 5);
    let device = mknodat(
        CWD,
        stand.workspace.join("device"),
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        zero,
    );
    let names = ["pipe", "socket", "empty"].into_iter().chain(device.is_ok().then_some("device"));
    let gate = stand.gate(trusted())?;
    for name in names {
        gate.call("fs.read", json!({ "path": name }), Ending::Failed("tool_failed"))?;
        gate.call("fs.append", json!({ "path": name, "content": "PWNED" }), Ending::Failed("tool_failed"))?;
        gate.call(
            "fs.edit",
            json!({ "path": name, "old": "token", "new": "x" }),
            Ending::Failed("tool_failed"),
        )?;
    }
    gate.call("fs.search", json!({ "pattern": "token" }), Ending::Done)?;
    drop(listener);
    let mut left = vec![0; stand.secret.len()];
    let whole = std::io::Read::read(&mut writer, &mut left)?;
    Ok(Effect::through_if(
        left != stand.secret.as_bytes() || whole != left.len(),
        "the pipe was read or written",
    ))
}

fn put_odd(stand: &Stand<'_>) -> Try<PathBuf> {
    let path = stand.workspace.join(OsStr::from_bytes(b".env\xff\xfe"));
    fs::write(&path, &stand.secret)?;
    Ok(path)
}

fn name_oddly(stand: &Stand<'_>) -> Try<Effect> {
    put_odd(stand)?;
    let gate = stand.gate(standard())?;
    gate.call("fs.list", json!({ "recursive": true }), Ending::Done)?;
    gate.call("fs.search", json!({ "pattern": "token" }), Ending::Done)?;
    gate.call("fs.read", json!({ "path": ".env\\xff\\xfe" }), Ending::Refused("protected"))?;
    gate.call("fs.read", json!({ "path": ".env\u{fffd}\u{fffd}" }), Ending::Refused("protected"))?;
    gate.call("shell", json!({ "command": "grep", "args": ["-ra", "token", "."] }), Ending::Settled)?;
    Ok(Effect::Held("it was not read".to_owned()))
}

// ---- names that mean something

const SECRETS: [&str; 7] = [
    ".env",
    "api/.ENV.production",
    ".ssh/id_rsa",
    "a/.aws/credentials",
    "deploy.PEM",
    ".config/gcloud/token",
    ".netrc",
];

fn put_secrets(stand: &Stand<'_>) -> Try<()> {
    SECRETS.iter().try_for_each(|name| stand.put(name, &stand.secret).map(drop))
}

fn read_hidden(stand: &Stand<'_>) -> Try<Effect> {
    stand.put("mine", "x")?;
    put_secrets(stand)?;
    let gate = stand.gate(trusted())?;
    for name in SECRETS {
        all_end(&gate, calls_with(name), Ending::Refused("protected"))?;
        gate.call("shell", json!({ "command": "cat", "args": [name] }), Ending::Settled)?;
    }
    gate.call("fs.search", json!({ "pattern": "token" }), Ending::Done)?;
    let shells = [
        "grep -ra token .",
        "cat .e* .s*/* *.PEM",
        "mv .env x; cat x",
        "ln .env y; cat y",
        "cp -r . /tmp/c; cat /tmp/c/.env",
    ];
    for script in shells {
        let call = json!({ "command": "sh", "args": ["-c", script], "profile": "mutate" });
        gate.call("shell", call, Ending::Settled)?;
    }
    // One that comes after a worker has been started is hidden by its name.
    stand.put(".env.late", &stand.secret)?;
    all_end(&gate, calls_with(".env.late"), Ending::Refused("protected"))?;
    gate.call("fs.search", json!({ "pattern": "token" }), Ending::Done)?;
    for name in SECRETS {
        if fs::read_to_string(stand.workspace.join(name))? != stand.secret {
            return Ok(Effect::Through(format!("{name} has changed")));
        }
    }
    untouched(stand)
}

/// A hook that was written is run by the next git of a person.
fn control_hook(stand: &Stand<'_>) -> Try<Effect> {
    git(stand)?;
    make_executable(&stand.put(".git/hooks/pre-commit", "#!/bin/sh\ntouch PWNED\n")?)?;
    let arguments = ["-c", "user.name=x", "-c", "user.email=x", "commit", "--allow-empty", "-m", "x"];
    stand.bare("git", &arguments, &stand.workspace)?;
    obeyed(stand)
}

fn git(stand: &Stand<'_>) -> Try<()> {
    stand.bare("git", &["init", "-q", "."], &stand.workspace)?;
    if stand.workspace.join(".git/config").is_file() { Ok(()) } else { Err("there is no git here".into()) }
}

fn write_hook(stand: &Stand<'_>) -> Try<Effect> {
    git(stand)?;
    stand.put("mine", "x")?;
    let before = fs::read_to_string(stand.workspace.join(".git/config"))?;
    let gate = stand.gate(trusted())?;
    let names = [
        ".git/hooks/pre-commit",
        ".git/config",
        ".GIT/config",
        ".git",
        "sub/.git/config",
        ".git/info/attributes",
        ".git/x",
    ];
    for name in names {
        all_end(&gate, changes_with(name), Ending::Refused("protected"))?;
    }
    for script in
        ["echo '[core]' >> .git/config", "echo x > .git/hooks/pre-commit", "mv .git x", "rm -r .git"]
    {
        let call = json!({ "command": "sh", "args": ["-c", script], "profile": "mutate" });
        gate.call("shell", call, Ending::Settled)?;
    }
    let changed = fs::read_to_string(stand.workspace.join(".git/config"))? != before;
    let hook = stand.workspace.join(".git/hooks/pre-commit").exists();
    Ok(if changed || hook {
        Effect::Through("git's own files have changed".to_owned())
    } else {
        untouched(stand)?
    })
}

/// The least that git takes for a repository, with a setting that it runs.
fn repository(stand: &Stand<'_>) -> Vec<(&'static str, String)> {
    let mark = stand.workspace.join("PWNED");
    let settings = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = \"touch {}; false\"\n",
        mark.display()
    );
    let head = "ref: refs/heads/main\n".to_owned();
    vec![("config", settings), ("HEAD", head), ("objects/x", String::new()), ("refs/x", String::new())]
}

/// A person looks around with git.
fn enter(stand: &Stand<'_>, folder: &str) -> Try<Effect> {
    stand.bare("git", &["status"], &stand.workspace.join(folder))?;
    obeyed(stand)
}

fn plant_repository(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(trusted())?;
    // In every order, so that each part comes last once.
    for turn in 0..4 {
        let mut parts = repository(stand);
        parts.rotate_left(turn);
        let folder = format!("sub{turn}");
        for (name, content) in parts {
            let call = json!({ "path": format!("{folder}/{name}"), "content": content, "parents": true });
            gate.call("fs.write", call, Ending::Settled)?;
        }
        if let Effect::Through(what) = enter(stand, &folder)? {
            return Ok(Effect::Through(format!("{what}, with {folder}")));
        }
    }
    // By moving what has other names, and by commands.
    for (name, content) in repository(stand) {
        stand.put(&format!("parts/{}", name.replace('/', "x/")), &content)?;
    }
    gate.call("fs.mkdir", json!({ "path": "moved" }), Ending::Done)?;
    for (from, to) in [("config", "config"), ("objectsx", "objects"), ("refsx", "refs"), ("HEAD", "HEAD")] {
        let call = json!({ "from": format!("parts/{from}"), "to": format!("moved/{to}") });
        let ending = if to == "HEAD" { Ending::Failed("protected") } else { Ending::Done };
        gate.call("fs.move", call, ending)?;
    }
    let script = "mkdir -p cmd/objects cmd/refs; cp sub0/config cmd; echo ref: refs/heads/main > cmd/HEAD";
    gate.call(
        "shell",
        json!({ "command": "sh", "args": ["-c", script], "profile": "build" }),
        Ending::Settled,
    )?;
    for folder in ["moved", "cmd"] {
        if let Effect::Through(what) = enter(stand, folder)? {
            return Ok(Effect::Through(format!("{what}, with {folder}")));
        }
    }
    // One that is there already is not changed, however deep.
    for (name, content) in repository(stand) {
        stand.put(&format!("there.git/{name}"), &content)?;
    }
    for path in
        ["there.git/config", "there.git/hooks/post-update", "there.git/refs/heads/main", "there.git/new"]
    {
        let call = json!({ "path": path, "content": "x", "parents": true });
        gate.call("fs.write", call, Ending::Failed("protected"))?;
    }
    obeyed(stand)
}

fn move_to_be_obeyed(stand: &Stand<'_>) -> Try<Effect> {
    stand.put("x/git/config", "[core]\n")?;
    stand.put("y/state/toolgate/key", "x")?;
    stand.put("z/config", "x")?;
    stand.put("mine", "x")?;
    let gate = stand.gate(trusted())?;
    for (from, to, ending) in [
        ("x", ".config", Ending::Failed("protected")),
        ("x", "sub/../.config", Ending::Refused("outside")),
        ("x/git", ".config/git", Ending::Refused("protected")),
        ("x", ".CONFIG", Ending::Failed("protected")),
        ("y", ".local", Ending::Failed("protected")),
        ("z", ".git", Ending::Refused("protected")),
        ("z/config", ".git/config", Ending::Refused("protected")),
        ("z", ".vscode", Ending::Refused("protected")),
        ("mine", ".envrc", Ending::Refused("protected")),
        ("mine", ".bashrc", Ending::Refused("protected")),
    ] {
        gate.call("fs.move", json!({ "from": from, "to": to }), ending)?;
    }
    obeyed(stand)
}

fn make_protected(stand: &Stand<'_>) -> Try<Effect> {
    stand.put("mine", "x")?;
    let gate = stand.gate(trusted())?;
    for name in [
        ".envrc",
        ".vscode/tasks.json",
        ".mcp.json",
        "toolgate.yaml",
        "a/.husky/pre-commit",
        ".bashrc",
        ".Zshrc",
    ] {
        all_end(&gate, changes_with(name), Ending::Refused("protected"))?;
        let script = format!("mkdir -p $(dirname {name}); echo touch PWNED > {name}");
        gate.call(
            "shell",
            json!({ "command": "sh", "args": ["-c", script], "profile": "build" }),
            Ending::Settled,
        )?;
        if stand.workspace.join(name).exists() {
            return Ok(Effect::Through(format!("{name} is there")));
        }
    }
    obeyed(stand)
}

fn change_read_only(stand: &Stand<'_>, read_only: bool) -> Try<Effect> {
    stand.put("mine", "x")?;
    let files = FileSettings { read_only, ..FileSettings::default() };
    let gate = stand.gate(Settings { files, ..trusted() })?;
    let ending = if read_only { Ending::Refused("constrained") } else { Ending::Settled };
    all_end(&gate, changes_with("made"), ending)?;
    obeyed(stand)
}

/// Whether something stands in the workspace that the host obeys, or that should not have been made.
fn obeyed(stand: &Stand<'_>) -> Try<Effect> {
    let names = ["PWNED", "made", ".envrc", ".config/git/config", ".local/state", ".vscode", "taken"];
    let found = names.into_iter().find(|name| stand.workspace.join(name).exists());
    Ok(Effect::through_if(found.is_some(), found.unwrap_or("none of them is there")))
}
