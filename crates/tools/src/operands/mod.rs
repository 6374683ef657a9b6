//! The files that a call names, bound before people are asked about it.
//!
//! A worker behind walls looks at them, so what is bound is what the call itself could read: this process opens nothing
//! in the workspace. What was bound is held when the call runs: the workspace is its alone, and a worker checks every
//! operand in the very sandbox that uses it.
//!
//! # Invariants
//! - A hidden or protected name, or a file with a second name, is never copied.
//! - A call whose operands are bound runs with those very operands, or not at all.

mod hold;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::{Binding, Digest, NotBound, Operand, Operands, Reason};
use jail::{Plan, SealedFile};
use policy::{Grant, GrantLimits, WorkspaceAccess};

pub use hold::Hold;
pub(crate) use hold::Holds;
pub(crate) use words::{Words, words_of};

use crate::facts::not_enforced;
use crate::files::{FileCall, FileResult};
use crate::path::shown;
use crate::surroundings::Surroundings;
use crate::wire::{BindInput, Expected, Links, Looked, Met, Word, WorkerRequest};

/// As many files as one question binds.
pub(crate) const MOST_FILES: usize = 64;
/// As many things that are not bound as one question tells.
const MOST_TOLD: usize = 64;
/// As many bytes as they have in all.
pub(crate) const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// What was bound for a question, with the copies that the call will get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sealed {
    /// What is bound, and what is not.
    pub operands: Operands,
    /// The copies, by their digest.
    pub contents: BTreeMap<Digest, Vec<u8>>,
}

impl Sealed {
    /// Whether every copy is there, and is what its digest says.
    pub fn is_whole(&self) -> bool {
        let sealed = self.operands.bound.iter().filter(|operand| operand.how == Binding::Sealed);
        sealed.into_iter().all(|operand| {
            let content = operand.digest.and_then(|digest| Some((digest, self.contents.get(&digest)?)));
            content.is_some_and(|(digest, content)| {
                Digest::of(content) == digest && content.len() as u64 == operand.bytes
            })
        })
    }

    /// Whether anything is bound, so that the call needs the workspace for itself.
    pub fn binds(&self) -> bool {
        !self.operands.bound.is_empty() || !self.operands.absent.is_empty()
    }
}

/// What was bound for a call that runs now, and the hold on its workspace.
#[derive(Clone, Debug)]
pub struct InForce {
    /// What was bound.
    pub sealed: Arc<Sealed>,
    /// Nobody else writes in the workspace, as far as they ask; nothing where nothing is bound.
    pub hold: Option<Arc<Hold>>,
}

impl InForce {
    /// What a worker has to check before it does anything.
    pub(crate) fn expected(&self) -> Vec<Expected> {
        let expected = self.sealed.operands.bound.iter().map(|operand| Expected {
            named: operand.named.clone(),
            path: Some(operand.path.clone()),
            digest: operand.digest,
        });
        let absent = self.sealed.operands.absent.iter();
        let absent = absent.map(|named| Expected { named: named.clone(), path: None, digest: None });
        expected.chain(absent).collect()
    }

    /// The plan with the copies in it, and their content.
    pub(crate) fn seal(&self, plan: Plan, root: &Path) -> Result<(Plan, Vec<u8>), Reason> {
        let mut files: BTreeMap<PathBuf, (SealedFile, &[u8])> = BTreeMap::new();
        for operand in self.sealed.operands.bound.iter().filter(|operand| operand.how == Binding::Sealed) {
            let content = operand.digest.and_then(|digest| self.sealed.contents.get(&digest));
            let content = content.ok_or_else(|| Reason::internal("a sealed copy is missing"))?;
            let path = root.join(&operand.path);
            let bytes = content.len() as u64;
            let file = SealedFile { path: path.clone(), bytes, executable: operand.executable };
            files.insert(path, (file, content.as_slice()));
        }
        let content = files.values().flat_map(|(_, content)| content.iter().copied()).collect();
        let files = files.into_values().map(|(file, _)| file).collect();
        let plan = plan.sealing(files).map_err(|error| not_enforced(&error.into()))?;
        Ok((plan, content))
    }
}

/// Checks that what is in force is what the grant is for. Whoever runs anything asks this first.
pub(crate) fn check_operands(grant: &Grant, in_force: Option<&InForce>) -> Result<(), Reason> {
    let bound = in_force.map(|in_force| in_force.sealed.operands.digest());
    if bound != grant.authority().operands {
        return Err(Reason::internal("the grant is for other files than those that were sealed"));
    }
    let alone = in_force.is_none_or(|in_force| !in_force.sealed.binds() || in_force.hold.is_some());
    if !alone || !in_force.is_none_or(|in_force| in_force.sealed.is_whole()) {
        return Err(Reason::internal("what was sealed for the call is not in force"));
    }
    Ok(())
}

/// What a worker is asked to look at.
pub(crate) struct Sought {
    pub(crate) root: PathBuf,
    pub(crate) links: Links,
    /// Where words count from.
    pub(crate) directory: String,
    pub(crate) words: Vec<Word>,
    /// What is known beforehand not to be bound.
    pub(crate) not_bound: Vec<NotBound>,
    /// Whether there were more words than anybody looks at.
    pub(crate) unseen: bool,
}

/// Why a call did not begin that waited for another to end.
pub(crate) fn busy() -> Reason {
    Reason::busy("a call that was approved has the workspace for itself")
        .with_hint("try again when it has ended")
}

impl Surroundings {
    /// Holds a workspace for one call: with others if it writes, alone if its operands are bound. Nobody has to hold what
    /// is only read.
    pub(crate) async fn hold(
        &self,
        root: &Path,
        access: WorkspaceAccess,
    ) -> Result<Option<Arc<Hold>>, Reason> {
        match (self.in_force().and_then(|in_force| in_force.hold.clone()), access) {
            (Some(alone), _) => Ok(Some(alone)),
            (None, WorkspaceAccess::Write) => Ok(Some(Arc::new(self.holds()?.shared(root).await?))),
            (None, WorkspaceAccess::None | WorkspaceAccess::Read) => Ok(None),
        }
    }

    /// Holds a workspace for one call alone; nothing if somebody else works there, to be tried again.
    pub fn try_hold_alone(&self, root: &Path) -> Result<Option<Hold>, Reason> {
        self.holds()?.try_alone(root)
    }

    /// Binds what words name.
    pub(crate) async fn bind(&self, sought: Sought) -> Result<Sealed, Reason> {
        let Sought { root, links, directory, words, mut not_bound, unseen } = sought;
        if words.is_empty() {
            let operands = Operands { not_bound: told(not_bound), unseen, ..Operands::default() };
            return Ok(Sealed { operands, ..Sealed::default() });
        }
        let question = WorkerRequest {
            root,
            names: self.told_names(),
            max_bytes: MOST_BYTES,
            links,
            expected: Vec::new(),
            call: FileCall::Bind(BindInput { directory, words }),
        };
        let asked = self.ask(WorkspaceAccess::Read, GrantLimits::default(), &question).await?;
        let FileResult::Bind(met) = asked.answer.result? else {
            return Err(Reason::bad_output("the worker answered another question"));
        };
        let mut sealed = Sealed::default();
        sealed.operands.unseen = unseen;
        for looked in met {
            take(looked, &mut sealed, &mut not_bound)?;
        }
        // One file has one binding: what is executed under one of its names is not changed under another.
        let copied: Vec<String> = sealed
            .operands
            .bound
            .iter()
            .filter(|operand| operand.how == Binding::Sealed)
            .map(|operand| operand.path.clone())
            .collect();
        for operand in sealed.operands.bound.iter_mut().filter(|operand| copied.contains(&operand.path)) {
            operand.how = Binding::Sealed;
        }
        sealed.operands.not_bound = told(not_bound);
        if sealed.is_whole() {
            Ok(sealed)
        } else {
            Err(Reason::bad_output("a copy is not what was looked at"))
        }
    }
}

/// Adds one thing that a worker has met. What it says is data: content is hashed here.
fn take(looked: Looked, sealed: &mut Sealed, not_bound: &mut Vec<NotBound>) -> Result<(), Reason> {
    let Looked { named, met } = looked;
    sealed.operands.unseen |= matches!(met, Met::TooMuch | Met::NotText);
    let mut leave = |why: &str| not_bound.push(NotBound { what: shown(&named), why: why.to_owned() });
    match met {
        Met::File { path, digest, bytes, executable, copy } => {
            let how = match copy {
                Some(copy) => {
                    let garbled = |_| Reason::bad_output("a copy cannot be read");
                    sealed.contents.insert(digest, STANDARD.decode(copy).map_err(garbled)?);
                    Binding::Sealed
                }
                None => Binding::Unchanged,
            };
            let operand = Operand { named, path, digest: Some(digest), bytes, executable, how };
            sealed.operands.bound.push(operand);
        }
        Met::Nothing { path } => {
            let how = Binding::Unchanged;
            let operand = Operand { named, path, digest: None, bytes: 0, executable: false, how };
            sealed.operands.bound.push(operand);
        }
        Met::Absent => sealed.operands.absent.push(named),
        Met::Directory => leave("a directory: what is in it may change"),
        Met::Hidden => leave("hidden: the call cannot read it either"),
        Met::Outside => leave("it leads out of the workspace"),
        Met::TooMuch => leave("more than 64 files, or 32 MiB in all"),
        Met::Closed => leave("it cannot be read, or its directory is not there yet"),
        Met::NotText => leave("its name is not text"),
    }
    Ok(())
}

/// As much as people read; what is left out has its part in the digest all the same.
fn told(mut not_bound: Vec<NotBound>) -> Vec<NotBound> {
    if not_bound.len() > MOST_TOLD {
        let rest = not_bound.split_off(MOST_TOLD);
        let digest = Digest::of(format!("{rest:?}").as_bytes()).to_string();
        let short: String = digest.chars().take(16).collect();
        let what = format!("{} more", rest.len());
        not_bound.push(NotBound { what, why: format!("too many to be told one by one ({short}…)") });
    }
    not_bound
}
