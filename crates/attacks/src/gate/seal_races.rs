//! Files that a call names, swapped all the time by others who may write there.

use std::fs;
use std::time::{Duration, Instant};

use contract::CallStatus;
use engine::{Engine, Request};
use serde_json::{Value, json};
use store::Vote;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Try;
use crate::case::Effect;
use crate::gate::seals::{EVIL, GOOD, furnish, furnished, is_good, seen};
use crate::gate::stand::{Ending, Gate, Stand, runtime};

/// How long a race is run, and how long it may take until something has been tried.
const RACE: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(90);

/// Writes the two scripts over each other, and renames them to each other.
const FILES: &str = "while :; do cp evil.sh a/in/run.sh; cp good.sh a/in/run.sh; \
    cp evil.sh next && mv next a/in/run.sh; cp good.sh next && mv next a/in/run.sh; done";

/// Swaps the directory for another. One that was stopped in the middle is put in order by the next.
const DIRECTORIES: &str = "[ -d was ] && { rm -rf a; mv was a; }; \
    while :; do mv a was && cp -r evil a; rm -rf a; mv was a; done";

/// Files beside the script: what is checked first waits for the rest to be, and that is the moment.
const PADS: usize = 60;
const PAD: usize = 512 * 1024;

fn raced() -> Value {
    let pads = (0..PADS).map(|number| format!("pad{number:02}"));
    let args: Vec<String> = ["a/in/run.sh".to_owned()].into_iter().chain(pads).collect();
    json!({ "command": "sh", "args": args, "profile": "mutate" })
}

/// Who checks and then uses is caught.
pub(super) fn control(stand: &Stand<'_>) -> Try<Effect> {
    furnish(stand)?;
    let script = stand.workspace.join("a/in/run.sh");
    let stop = CancellationToken::new();
    let (path, stopped) = (script.clone(), stop.clone());
    let storm = std::thread::spawn(move || {
        while !stopped.is_cancelled() {
            let _ = fs::write(&path, EVIL).and_then(|()| fs::write(&path, GOOD));
        }
    });
    let begun = Instant::now();
    let mut effect = seen(stand)?;
    while begun.elapsed() < PATIENCE && matches!(effect, Effect::Held(_)) {
        if fs::read_to_string(&script).is_ok_and(|text| text == GOOD) {
            stand.bare("sh", &["a/in/run.sh"], &stand.workspace)?;
        }
        effect = seen(stand)?;
    }
    stop.cancel();
    storm.join().map_err(|_| "the storm failed")?;
    Ok(effect)
}

/// The same with calls that the agent may make without asking, against one that was approved.
pub(super) fn attack(stand: &Stand<'_>) -> Try<Effect> {
    let gate = furnished(stand)?;
    stand.put("good.sh", GOOD)?;
    stand.put("evil.sh", EVIL)?;
    for number in 0..PADS {
        stand.put(&format!("pad{number:02}"), &"x".repeat(PAD))?;
    }
    let stop = CancellationToken::new();
    let storms = [FILES, DIRECTORIES].map(|storm| begin(&gate, storm, &stop));
    let raced = race(stand, &gate);
    stop.cancel();
    let mut stormed = 0;
    for storm in storms {
        stormed += runtime()?.block_on(storm?)?;
    }
    match raced? {
        (Effect::Held(_), _) if stormed < 2 => Err("there was no storm".into()),
        (Effect::Held(_), Tally { ran, refused }) => {
            Ok(Effect::Held(format!("{ran} ran as approved, {refused} were refused, in {stormed} storms")))
        }
        (through, _) => Ok(through),
    }
}

/// Begins calls that write, one after the other, until it is stopped. How many were made.
fn begin(gate: &Gate<'_>, storm: &str, stop: &CancellationToken) -> Try<JoinHandle<u32>> {
    let call = json!({ "command": "sh", "args": ["-c", storm], "profile": "build", "timeout": 1 });
    let (request, engine, stop) = (gate.request("shell", call)?, gate.engine.clone(), stop.clone());
    Ok(runtime()?.spawn(async move { rage(engine, request, stop).await }))
}

async fn rage(engine: Engine, request: Request, stop: CancellationToken) -> u32 {
    let mut made = 0;
    while !stop.is_cancelled() {
        engine.call(request.clone(), Duration::ZERO, CancellationToken::new()).await;
        made += 1;
    }
    made
}

/// What came of the calls that were approved.
#[derive(Default)]
struct Tally {
    ran: u32,
    refused: u32,
}

fn race(stand: &Stand<'_>, gate: &Gate<'_>) -> Try<(Effect, Tally)> {
    let begun = Instant::now();
    let mut tally = Tally::default();
    while begun.elapsed() < RACE || tally.ran + tally.refused < 3 {
        if begun.elapsed() > PATIENCE {
            return Err(format!("only {} calls came to anything", tally.ran + tally.refused).into());
        }
        let result = gate.send(gate.request("shell", raced())?)?;
        let Some(view) = result.approval else {
            return Err(format!("it does not wait: {}", result.content).into());
        };
        // Only what is good is approved, as a person would.
        let question = runtime()?.block_on(gate.engine.question_of(&result.call_id))?;
        let bound = question.and_then(|question| question.operands).unwrap_or_default();
        if !is_good(&bound) {
            gate.answer(view.id.as_str(), Vote::Reject)?;
            continue;
        }
        gate.answer(view.id.as_str(), Vote::Approve)?;
        let again = gate.request("shell", raced())?;
        let ended = runtime()?.block_on(gate.engine.call(again, PATIENCE, CancellationToken::new()));
        gate.expect(&ended.call_id, Ending::Settled);
        match (ended.status, ended.reason.map(|reason| reason.code.as_str())) {
            (CallStatus::Completed, _) => tally.ran += 1,
            (CallStatus::Failed, Some("changed")) => tally.refused += 1,
            (status, code) => return Err(format!("it ended as {status:?} {code:?}").into()),
        }
        let effect = seen(stand)?;
        if matches!(effect, Effect::Through(_)) {
            return Ok((effect, tally));
        }
    }
    Ok((Effect::Held("not once".to_owned()), tally))
}
