//! What has to be true after a storm, looked at from outside.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use contract::{CallId, CallResult, CallStatus, Canonical, Digest};
use store::{LedgerEntry, Store};

use crate::Try;
use crate::storm::driver::{Deed, Orders};
use crate::storm::points::Then;

/// How long the last process of a dead gate may take to follow it. Generous: two shared processors.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is wrong, if anything is.
pub(crate) type Complaints = Vec<String>;

/// What is true of one round after its call was made again, with this answer.
pub(crate) async fn round(
    store: &Store,
    orders: &Orders,
    answer: &CallResult,
    then: Then,
) -> Try<Complaints> {
    let mut wrong = Complaints::new();
    let mut complain = |is_wrong: bool, what: String| {
        if is_wrong {
            wrong.push(format!("round {}: {what}", orders.round));
        }
    };
    let effects = count_effects(orders);
    let (status, expected) = match then {
        Then::Done => (CallStatus::Completed, 1),
        Then::UnknownUndone => (CallStatus::Unknown, 0),
        Then::UnknownDone => (CallStatus::Unknown, 1),
    };
    complain(effects > 1, format!("{effects} effects under one key"));
    complain(effects != expected, format!("{effects} effects, not {expected}"));
    complain(answer.status != status, format!("the answer is {:?}: {}", answer.status, answer.content));
    let unresolved = store.unresolved(u32::MAX >> 1).await?;
    let is_listed = unresolved.iter().any(|row| row.id == answer.call_id);
    complain(
        is_listed != (status == CallStatus::Unknown),
        format!("listed as unresolved: {is_listed}, its answer: {:?}", answer.status),
    );
    let arguments = Canonical::of(orders.deed.arguments(orders.round))?.digest();
    let entries = entries(store).await?;
    let is_recorded = is_planned_and_started(store, &entries, arguments).await?;
    complain(effects > 0 && !is_recorded, "an effect without its planned and started records".to_owned());
    Ok(wrong)
}

/// What is true of the whole place once no gate lives there.
pub(crate) async fn place(store: &Store, driver: &Path, workspace: &Path) -> Try<Complaints> {
    let mut wrong = Complaints::new();
    if let Err(error) = store.verify(None).await {
        wrong.push(format!("the ledger does not verify: {error}"));
    }
    for owner in store.owners().await? {
        for row in store.under_way(owner.as_ref(), 100).await? {
            wrong.push(format!("call {} is {} and has no living owner", row.id, row.status.as_str()));
        }
    }
    let began = Instant::now();
    loop {
        let survivors = survivors(driver, workspace);
        if survivors.is_empty() {
            return Ok(wrong);
        }
        if began.elapsed() > PATIENCE {
            wrong.push(format!("processes survive: {survivors:?}"));
            return Ok(wrong);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn count_effects(orders: &Orders) -> usize {
    let file = match orders.deed {
        Deed::Append | Deed::Make => orders.workspace.join("effects"),
        Deed::Pay | Deed::PayWithApproval | Deed::Reconcile => orders.book.clone(),
    };
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter(|line| *line == orders.round.to_string()).count()
}

async fn entries(store: &Store) -> Try<Vec<LedgerEntry>> {
    let mut entries: Vec<LedgerEntry> = Vec::new();
    loop {
        let more = store.latest_event(entries.last().map_or(-1, |entry| entry.seq)).await?;
        if more.is_empty() {
            return Ok(entries);
        }
        entries.extend(more);
    }
}

/// The ledger does not tell the arguments; the call that it names does.
async fn is_planned_and_started(store: &Store, entries: &[LedgerEntry], arguments: Digest) -> Try<bool> {
    let call = |entry: &LedgerEntry| entry.body.get("call")?.as_str().map(str::to_owned);
    for planned in entries.iter().filter(|entry| entry.kind == "call.planned") {
        let named = call(planned);
        let is_start = |entry: &&LedgerEntry| {
            entry.seq > planned.seq && entry.kind == "call.started" && call(entry) == named
        };
        if entries.iter().any(|entry| is_start(&entry))
            && let Some(row) = store.call(&CallId::parse(named.as_deref().unwrap_or_default())?).await?
            && row.arguments == arguments
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Living processes of this gate: its own binary, or anything that has its workspace mounted.
fn survivors(driver: &Path, workspace: &Path) -> Vec<String> {
    let (driver, workspace) = (driver.display().to_string(), workspace.display().to_string());
    let describe = |process: &Path| -> Option<String> {
        let pid = process.file_name()?.to_str()?.parse::<u32>().ok()?;
        let status = fs::read_to_string(process.join("stat")).ok()?;
        // The state follows the name, which is in brackets and may hold anything.
        let (_, after_name) = status.rsplit_once(") ")?;
        if pid == std::process::id() || after_name.starts_with(['Z', 'X']) {
            return None;
        }
        let program = fs::read_link(process.join("exe")).unwrap_or_default().display().to_string();
        let arguments = fs::read_to_string(process.join("cmdline")).unwrap_or_default().replace('\0', " ");
        let mounts = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
        let is_ours = program.contains(&driver) || arguments.contains(&driver) || mounts.contains(&workspace);
        is_ours.then(|| format!("{pid} {program} {arguments}"))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| describe(&entry.path())).collect()
}
