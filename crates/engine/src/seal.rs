//! Files that a call names: bound when people are asked about it, in force when it runs.

use std::sync::Arc;

use contract::{ApprovalId, Digest, Reason};
use store::{Seal, SealRow};
use tools::{InForce, Owner, Sealed};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::request::Request;

/// What a question bound.
pub(crate) struct Bound {
    /// What people were shown, and answered to.
    shown: Digest,
    sealed: Arc<Sealed>,
}

/// What keeps a call from having what was bound for it.
pub(crate) enum NotInForce {
    /// Somebody else works in the workspace; it is tried again.
    Busy,
    /// It cannot be had at all.
    Refused(Reason),
}

impl Bound {
    /// What was looked at this moment.
    pub(crate) fn fresh(Seal { operands, contents }: Seal) -> Bound {
        Bound { shown: operands.digest(), sealed: Arc::new(Sealed { operands, contents }) }
    }

    /// What people were shown.
    pub(crate) fn shown(&self) -> Digest {
        self.shown
    }

    /// What the call would get, by what is there.
    pub(crate) fn given(&self) -> Digest {
        self.sealed.operands.digest()
    }
}

impl Engine {
    /// Looks at the files that a call names, for the question that is about to be asked. Nothing if it names none.
    pub(crate) async fn bind(&self, request: &Request) -> Result<Option<Seal>, Reason> {
        let catalogue = self.catalogue();
        let Some(listed) = catalogue.find(&request.tool) else { return Ok(None) };
        let owner = Owner { agent: request.agent.clone(), task: request.task.clone() };
        let surroundings = self.inner.surroundings.for_owner(owner);
        let workspace = self.workspace_of(&request.agent);
        let Sealed { operands, contents } =
            listed.tool.seal(&request.arguments, workspace, &surroundings).await?;
        Ok((!operands.is_empty()).then_some(Seal { operands, contents }))
    }

    /// What a question bound, if it bound anything.
    pub(crate) async fn bound(&self, approval: &ApprovalId) -> Result<Option<Bound>, EngineError> {
        let row = self.inner.store.seal(approval).await?;
        Ok(row.map(|SealRow { digest, seal: Seal { operands, contents } }| Bound {
            shown: digest,
            sealed: Arc::new(Sealed { operands, contents }),
        }))
    }

    /// Brings into force what was bound: the workspace is held for this call alone.
    pub(crate) fn put_in_force(
        &self,
        bound: Option<Bound>,
        request: &Request,
    ) -> Result<Option<InForce>, NotInForce> {
        let Some(Bound { sealed, .. }) = bound else { return Ok(None) };
        if !sealed.is_whole() {
            let reason = Reason::changed("the store does not have what was sealed for the call");
            return Err(NotInForce::Refused(reason.with_hint("make the call again to ask anew")));
        }
        if !sealed.binds() {
            return Ok(Some(InForce { sealed, hold: None }));
        }
        match self.inner.surroundings.try_hold_alone(self.workspace_of(&request.agent)) {
            Ok(Some(hold)) => Ok(Some(InForce { sealed, hold: Some(Arc::new(hold)) })),
            Ok(None) => Err(NotInForce::Busy),
            Err(reason) => Err(NotInForce::Refused(reason)),
        }
    }
}
