//! Workers for files: started behind walls, asked one question at a time, and kept for their owner's next call.
//!
//! # Invariants
//! - A worker is kept only after it has answered, and answered sense; everything else ends it.
//! - A kept worker serves its own owner, workspace and access, and nothing else: not even less access.
//! - A worker whose workspace is another directory by now is not used.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use contract::Reason;
use jail::{
    Access, ChangeReport, Content, Directory, Draft, Enforcement, Kept, Limits, Loopback, Plan, Program,
    Strictness,
};
use policy::{GrantLimits, WorkspaceAccess};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_util::task::AbortOnDropHandle;

use crate::crash::reach;
use crate::facts::not_enforced;
use crate::inside::{Trade, WORKER_ARGUMENT};
use crate::surroundings::{Owner, Surroundings};
use crate::wire::{WorkerRequest, WorkerResponse, length_of};

/// How long a worker waits for a next call.
const IDLE: Duration = Duration::from_secs(30);
/// How many wait at once.
const MOST: usize = 8;
/// How long a worker lives, however busy. Whatever it was started with is looked at again then.
const LIFE: Duration = Duration::from_secs(600);

/// An answer, and what held whoever gave it.
pub(crate) struct Asked {
    pub(crate) answer: WorkerResponse,
    pub(crate) enforcement: Enforcement,
}

impl Surroundings {
    /// Asks a worker. Dropping the future ends the worker.
    pub(crate) async fn ask(
        &self,
        access: WorkspaceAccess,
        limits: GrantLimits,
        question: &WorkerRequest,
    ) -> Result<Asked, Reason> {
        let bytes = serde_json::to_vec(question).map_err(|error| Reason::internal(error.to_string()))?;
        // Let go last: after the worker, if that has to be ended.
        let _hold = self.hold(&question.root, access).await?;
        // One that was started with other limits than usual holds them for its whole life, so it serves one call.
        let usual = GrantLimits { timeout: limits.timeout, ..GrantLimits::default() };
        let owner = self.owner().filter(|_| limits == usual);
        let key = owner.and_then(|owner| Key::of(owner, &question.root, access));
        let kept = key.as_ref().and_then(|key| self.pool().take(key));
        let is_kept = kept.is_some();
        let mut worker = match kept {
            Some(worker) => worker,
            None => self.start(access, limits, &question.root).await?,
        };
        reach("worker/unasked");
        let mut answered = worker.ask(&bytes).await;
        // One that had died while it waited has done nothing with the question: it could not even be sent.
        if is_kept && matches!(&answered, Err(Silence::Unsent)) {
            worker = self.start(access, limits, &question.root).await?;
            answered = worker.ask(&bytes).await;
        }
        match answered {
            Ok(answer) => {
                reach("worker/answered");
                let enforcement = worker.kept.enforcement().clone();
                if let Some(key) = key {
                    self.keep(key, worker);
                }
                Ok(Asked { answer, enforcement })
            }
            Err(Silence::Unsent | Silence::Died) => Err(died(access)),
            Err(Silence::Garbled) => Err(Reason::bad_output("the worker's answer is not understood")),
        }
    }

    async fn start(
        &self,
        access: WorkspaceAccess,
        limits: GrantLimits,
        root: &Path,
    ) -> Result<Worker, Reason> {
        let plan = plan_for(self.binary(), access, limits, root, self.names())
            .map_err(|error| not_enforced(&error.into()))?;
        let kept = self.launch(move |launcher| launcher.keep(&plan)).await;
        let kept = kept.ok_or_else(|| Reason::internal("the gate is ending"))?;
        let kept = kept.map_err(|refusal| not_enforced(&refusal))?;
        Worker::new(kept).map_err(|_| Reason::internal("the worker cannot be talked to"))
    }

    fn keep(&self, key: Key, worker: Worker) {
        self.pool().put(key, worker);
        // INVARIANT(idle-worker-ends): whoever puts one back sees to it that somebody looks after it.
        let mut reaper = self.pool().reaper.lock().unwrap_or_else(PoisonError::into_inner);
        if reaper.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
            *reaper = Some(AbortOnDropHandle::new(tokio::spawn(reap(Arc::downgrade(self.pool())))));
        }
    }
}

/// Ends workers that have waited long enough, as long as there is a pool.
async fn reap(pool: Weak<Pool>) {
    while let Some(next) = pool.upgrade().map(|pool| pool.expire()) {
        tokio::time::sleep(next).await;
    }
}

fn died(access: WorkspaceAccess) -> Reason {
    match access {
        WorkspaceAccess::Write => {
            Reason::outcome_unknown("the worker ended in the middle of the call; it may have happened")
                .with_hint("look at the file before you try again")
        }
        WorkspaceAccess::None | WorkspaceAccess::Read => {
            Reason::tool_failed("the worker ended in the middle of the call").with_hint("try again")
        }
    }
}

/// What a worker for files may do: see one directory, and talk to the gate.
fn plan_for(
    binary: &Path,
    access: WorkspaceAccess,
    granted: GrantLimits,
    root: &Path,
    names: &jail::Names,
) -> Result<Plan, jail::PlanError> {
    let access = match access {
        WorkspaceAccess::Write => Access::Write,
        WorkspaceAccess::None | WorkspaceAccess::Read => Access::Read,
    };
    Plan::try_from(Draft {
        program: Program::Brought(binary.to_owned()),
        arguments: vec![WORKER_ARGUMENT.into(), Trade::Files.as_str().into()],
        working_directory: "/".into(),
        directories: vec![Directory { path: root.to_owned(), access, content: Content::Workspace }],
        environment: Vec::new(),
        names: names.clone(),
        loopback: Loopback::Closed,
        // Of its whole life; what one question may take is in the question.
        limits: Limits {
            memory: granted.memory.min(512 << 20),
            pids: granted.pids.min(8),
            cpu_millis: granted.cpu_millis,
            disk: if granted.disk == GrantLimits::default().disk { 64 << 30 } else { granted.disk },
            output: 1 << 46,
            timeout: LIFE * 2,
            ..Limits::default()
        },
        changes: ChangeReport::Skip,
        strictness: Strictness::Report,
    })
}

/// A worker that was started.
#[derive(Debug)]
struct Worker {
    kept: Kept,
    channel: UnixStream,
    begun: Instant,
}

/// Why there is no answer.
enum Silence {
    /// The question could not be sent.
    Unsent,
    /// It was sent, and nothing came.
    Died,
    /// What came is no answer.
    Garbled,
}

impl Worker {
    fn new(kept: Kept) -> io::Result<Worker> {
        let channel = kept.channel().try_clone()?;
        channel.set_nonblocking(true)?;
        Ok(Worker { kept, channel: UnixStream::from_std(channel)?, begun: Instant::now() })
    }

    async fn ask(&mut self, question: &[u8]) -> Result<WorkerResponse, Silence> {
        let mut frame = (question.len() as u64).to_le_bytes().to_vec();
        frame.extend_from_slice(question);
        self.channel.write_all(&frame).await.map_err(|_| Silence::Unsent)?;
        let bytes = self.hear().await.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => Silence::Garbled,
            _ => Silence::Died,
        })?;
        serde_json::from_slice(&bytes).map_err(|_| Silence::Garbled)
    }

    async fn hear(&mut self) -> io::Result<Vec<u8>> {
        let mut header = [0; 8];
        self.channel.read_exact(&mut header).await?;
        let length = length_of(header)?;
        let mut bytes = Vec::new();
        (&mut self.channel).take(length as u64).read_to_end(&mut bytes).await?;
        if bytes.len() == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// For what a worker is good.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    owner: Owner,
    root: PathBuf,
    /// Which directory that is, whatever takes its name later.
    identity: (u64, u64),
    access: WorkspaceAccess,
}

impl Key {
    fn of(owner: &Owner, root: &Path, access: WorkspaceAccess) -> Option<Key> {
        let status = std::fs::symlink_metadata(root).ok()?;
        Some(Key {
            owner: owner.clone(),
            root: root.to_owned(),
            identity: (status.dev(), status.ino()),
            access,
        })
    }
}

/// Workers that wait, and who looks after them.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    waiting: Mutex<VecDeque<Waiting>>,
    reaper: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Debug)]
struct Waiting {
    key: Key,
    worker: Worker,
    since: Instant,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// The worker for this key that waits the shortest: its files are the likeliest to be in memory.
    fn take(&self, key: &Key) -> Option<Worker> {
        self.expire();
        let mut waiting = self.lock();
        let at = waiting.iter().rposition(|waiting| waiting.key == *key)?;
        waiting.remove(at).map(|waiting| waiting.worker)
    }

    fn put(&self, key: Key, worker: Worker) {
        let ended = {
            let mut waiting = self.lock();
            waiting.push_back(Waiting { key, worker, since: Instant::now() });
            if waiting.len() > MOST { waiting.pop_front() } else { None }
        };
        end(ended.into_iter().collect());
    }

    /// Ends those that have waited long enough. Returns when to look again.
    fn expire(&self) -> Duration {
        let now = Instant::now();
        let is_old = |waiting: &Waiting| {
            now.duration_since(waiting.since) >= IDLE || now.duration_since(waiting.worker.begun) >= LIFE
        };
        self.end_those(is_old);
        let waits = |waiting: &Waiting| IDLE.saturating_sub(now.duration_since(waiting.since));
        self.lock().iter().map(waits).min().unwrap_or(IDLE) + Duration::from_millis(10)
    }

    pub(crate) fn forget(&self, owner: &Owner) {
        self.end_those(|waiting| waiting.key.owner == *owner);
    }

    fn end_those(&self, which: impl Fn(&Waiting) -> bool) {
        let ended = {
            let mut waiting = self.lock();
            let (ended, kept): (Vec<Waiting>, Vec<Waiting>) = waiting.drain(..).partition(which);
            *waiting = kept.into();
            ended
        };
        end(ended);
    }
}

/// Ends workers; outside of the lock, and off the threads that others wait for.
fn end(workers: Vec<Waiting>) {
    if workers.is_empty() {
        return;
    }
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(workers))),
        Err(_) => drop(workers),
    }
}
