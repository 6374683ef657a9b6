//! What one run leaves for the next: files, shared memory, sockets, processes, counters.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use jail::{Control, Network, Request, Response};

use crate::Try;
use crate::case::{Attempt, Case, Effect, Teeth};
use crate::launch::{Mode, Ran, Reply, Run, Site, Start, wait_in_place};
use crate::payload::{Payload, argument, held, say, through};
use crate::raw::{Word, try_call};

pub(crate) const PAYLOADS: &[Payload] = &[("litter", litter), ("rooms", rooms)];

/// How many sandboxes have waited in one trial, and in a long one.
const ROUNDS: usize = 40;
const MANY_ROUNDS: usize = 10_000;

/// A port that nobody has by chance: it is asked for in a network of its own.
const PORT: u16 = 47_433;
const NAME: &str = "toolgate-litter";
/// The same for what has a number.
const NUMBER: Word = Word::Number(0x7067);
const FOLDERS: [&str; 4] = ["/tmp", "/dev/shm", "/var/tmp", jail::HOME];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            teeth: Teeth::Shown(Box::new(twice_in_one)),
            ..Case::new(
                "used-twice",
                "nothing of one run is there in the next",
                &[Control::Filesystem, Control::Processes, Control::Network, Control::Ipc],
                again_and_again,
            )
        },
        Case {
            // The control: whoever was granted something finds the way to it.
            teeth: Teeth::Shown(Box::new(|site| {
                look_around(&site.bench.site(Mode::behind_all())?, Granted::Folder)?.told()
            })),
            ..Case::new(
                "room-of-another",
                "the way to what a plan grants is in no other sandbox, and nobody makes anything in a root",
                &[Control::Filesystem],
                |site| {
                    let Effect::Through(_) = look_around(site, Granted::Folder)?.told()? else {
                        return Err("nothing was granted that could be left behind".into());
                    };
                    // Who waits in place has been granted the program.
                    let waits = if site.start == Start::Cold { Start::Cold } else { Start::Warm };
                    let site = site.bench.site_from(site.mode, waits)?;
                    look_around(&site, Granted::Nothing)?.judged(Ran::told)
                },
            )
        },
    ]
}

/// What a run that looks around was granted.
#[derive(Clone, Copy)]
enum Granted {
    Folder,
    Nothing,
}

fn look_around(site: &Site<'_>, granted: Granted) -> Try<Ran> {
    let read = match granted {
        Granted::Folder => vec![site.place.folder("granted")?],
        Granted::Nothing => Vec::new(),
    };
    site.run(Run { read, ..Run::payload("rooms", [""]) })
}

/// The control: the second of two in one sandbox finds everything that the first has left.
fn twice_in_one(site: &Site<'_>) -> Try<Effect> {
    let inside = site.bench.site(Mode::behind_all())?;
    let ran = inside.run(leaving("twice"))?;
    let found: Vec<&str> = ran.stdout.lines().filter_map(|line| line.strip_prefix("found ")).collect();
    let missing: Vec<&str> = KINDS.into_iter().filter(|kind| !found.contains(kind)).collect();
    let what = format!("not found again: {missing:?} ({} {})", ran.stdout, ran.stderr);
    Ok(Effect::through_if(missing.is_empty(), what))
}

fn leaving(times: &str) -> Run {
    Run { network: Network::Loopback, ..Run::payload("litter", [times]) }
}

fn again_and_again(site: &Site<'_>) -> Try<Attempt> {
    let Mode::Behind(without) = site.mode else { return Err("this needs a sandbox".into()) };
    if site.start == Start::Cold {
        site.run(leaving("once"))?;
        return site.run(leaving("once"))?.judged(Ran::told);
    }
    let plan = site.plan(&leaving("once"), without)?;
    let request = Request { plan, sealed: Vec::new(), input: Vec::new() };
    let rounds = if site.bench.settings.long { MANY_ROUNDS } else { ROUNDS };
    let in_place = match site.start {
        Start::InPlace => Some(site.in_place(&request)?),
        Start::Cold | Start::Warm => None,
    };
    for round in 1..=rounds {
        if let Some(warm) = &in_place {
            wait_in_place(warm, &request)?;
        }
        let warm = in_place.as_ref().unwrap_or(&site.bench.warm);
        let Response::Report(report) = warm.run(&request)? else {
            return Err(format!("round {round} was refused").into());
        };
        let clean = report.stdout.text().contains("@held ");
        if !clean || round == rounds {
            let found = format!("round {round}: {}{}", report.stdout.text(), report.stderr.text());
            return Ok(Attempt { effect: Effect::through_if(!clean, found), answer: Reply::Report(report) });
        }
    }
    Err("there was no round".into())
}

/// Where every root has a place for a plan's directories, and what is in it in every sandbox: the tool's own home, scratch
/// space, and this program.
const ROOMS: [(&str, &str); 15] = [
    ("/app", ""),
    ("/code", ""),
    ("/data", ""),
    ("/home", "agent"),
    ("/media", ""),
    ("/mnt", ""),
    ("/opt", ""),
    ("/root", ""),
    ("/run", ".tool"),
    ("/src", ""),
    ("/srv", ""),
    ("/var", "tmp"),
    ("/work", ""),
    ("/workspace", ""),
    ("/workspaces", ""),
];

/// Looks for the way to something that was granted, and tries to leave something in the root.
fn rooms(_: &[String]) {
    let is_other = |entry: &fs::DirEntry, own: &str| entry.file_name() != own;
    let ways = ROOMS.iter().flat_map(|(room, own)| {
        let entries = fs::read_dir(room).into_iter().flatten().flatten();
        entries.filter(move |entry| is_other(entry, own)).map(|entry| entry.path().display().to_string())
    });
    let places = ROOMS.iter().map(|(room, _)| *room).chain(["/", "/etc", "/dev", "/usr", "/.cover"]);
    // That it belongs to somebody else is not what holds: it cannot be written to.
    let is_read_only = |path: &PathBuf| {
        fs::write(path, "").is_err_and(|error| error.kind() == std::io::ErrorKind::ReadOnlyFilesystem)
    };
    let open = places.map(|place| Path::new(place).join(NAME)).filter(|path| !is_read_only(path));
    let found: Vec<String> = ways.chain(open.map(|path| format!("no wall at {}", path.display()))).collect();
    if found.is_empty() { held("nothing was there") } else { through(found.join(", ")) }
}

/// What is looked for.
const KINDS: [&str; 9] = [
    "a file in scratch space",
    "shared memory",
    "an abstract socket",
    "a listener",
    "packets",
    "what protocols have counted",
    "a process",
    "a message queue",
    "a semaphore",
];

/// Looks for what another has left, and leaves the same.
fn litter(arguments: &[String]) {
    let found = look();
    if found.is_empty() {
        held("nothing was there");
    } else {
        through(found.join(", "));
    }
    let _left = leave();
    if argument(arguments, 0) == "twice" {
        look().into_iter().for_each(|kind| say(&format!("found {kind}")));
    }
}

#[expect(clippy::disallowed_methods, reason = "whether somebody listens is seen by asking")]
fn look() -> Vec<&'static str> {
    let [file, memory, socket, listener, packets, counted, process, queue, semaphore] = KINDS;
    let mut found = Vec::new();
    let mut note = |kind, is_there: bool| {
        if is_there {
            found.push(kind);
        }
    };
    note(file, FOLDERS.iter().any(|folder| fs::read_dir(folder).is_ok_and(|entries| entries.count() > 0)));
    note(memory, lines_of("/proc/sysvipc/shm") > 1);
    note(queue, lines_of("/proc/sysvipc/msg") > 1);
    note(semaphore, lines_of("/proc/sysvipc/sem") > 1);
    let abstract_name = SocketAddr::from_abstract_name(NAME);
    note(socket, abstract_name.and_then(|name| UnixStream::connect_addr(&name)).is_ok());
    note(packets, received_on_loopback() > 0);
    note(counted, connections_begun() > 0);
    note(listener, TcpStream::connect(("127.0.0.1", PORT)).is_ok());
    note(process, processes() > 2);
    found
}

fn lines_of(file: &str) -> usize {
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

fn received_on_loopback() -> u64 {
    let devices = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let counters = devices.lines().find_map(|line| line.trim().strip_prefix("lo:"));
    counters.and_then(|counters| counters.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

fn connections_begun() -> u64 {
    let counters = fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    let mut of_tcp = counters.lines().filter_map(|line| line.strip_prefix("Tcp:")).map(str::split_whitespace);
    let (Some(mut names), Some(mut values)) = (of_tcp.next(), of_tcp.next()) else { return 0 };
    let place = names.position(|name| name == "ActiveOpens");
    place.and_then(|place| values.nth(place)?.parse().ok()).unwrap_or(0)
}

/// Those that can be seen; the init and this one are always there.
fn processes() -> usize {
    let is_process = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().parse::<u32>().is_ok();
    fs::read_dir("/proc").map_or(0, |entries| entries.flatten().filter(is_process).count())
}

/// What has to stay open until the end.
type Left = (Option<UnixListener>, Option<TcpListener>, Option<std::process::Child>);

#[expect(clippy::disallowed_methods, reason = "what is left behind is the point")]
fn leave() -> Left {
    for folder in FOLDERS {
        let _ = fs::write(Path::new(folder).join(NAME), NAME);
    }
    let make = (libc::IPC_CREAT | 0o600).into();
    for (call, words) in [
        (libc::SYS_shmget, [NUMBER, Word::Number(4096), Word::Number(make)]),
        (libc::SYS_msgget, [NUMBER, Word::Number(make), Word::Number(0)]),
        (libc::SYS_semget, [NUMBER, Word::Number(1), Word::Number(make)]),
    ] {
        let [first, second, third] = words;
        let _ = try_call(call, [first, second, third, Word::Number(0), Word::Number(0)]);
    }
    let socket = SocketAddr::from_abstract_name(NAME).and_then(|name| UnixListener::bind_addr(&name)).ok();
    let listener = TcpListener::bind(("127.0.0.1", PORT)).ok();
    let _ = TcpStream::connect(("127.0.0.1", PORT));
    let child = crate::launch::command_of(Path::new("/usr/bin/sleep"), &["30".into()]).spawn().ok();
    (socket, listener, child)
}
