//! The engine as the gate that lets people in. It translates; it decides nothing.

use contract::{AgentName, ApprovalId, OperatorName};
use engine::{Credential, Engine, Password, PeopleError, ProofError, SignInRefused, SignedIn};
use store::{OperatorRow, Passkey, Role, TokenError};

use super::engine_gate::trouble;
use super::entrance::Entrance;
use super::gate::{GateError, Pending};

impl Entrance for Engine {
    fn sign_in_by_password<'a>(
        &'a self,
        name: &'a str,
        password: Password,
    ) -> Pending<'a, Result<SignedIn, SignInRefused>> {
        Box::pin(Engine::sign_in_by_password(self, name, password))
    }

    fn sign_in_by_passkey<'a>(
        &'a self,
        passkey: &'a Passkey,
        uses: i64,
    ) -> Pending<'a, Result<SignedIn, SignInRefused>> {
        Box::pin(Engine::sign_in_by_passkey(self, passkey, uses))
    }

    fn turn_away<'a>(&'a self, account: &'a str) -> Pending<'a, SignInRefused> {
        Box::pin(async move {
            let Err(refused) = Engine::turn_away::<std::convert::Infallible>(self, account, "passkey").await;
            refused
        })
    }

    fn will_make_link<'a>(&'a self, credential: &'a Credential) -> Pending<'a, Result<(), GateError>> {
        Box::pin(async move { Engine::will_make_link(self, credential).await.map_err(trouble) })
    }

    fn came_by_link<'a>(&'a self, credential: &'a Credential) -> Pending<'a, Result<(), GateError>> {
        Box::pin(async move { Engine::came_by_link(self, credential).await.map_err(trouble) })
    }

    fn sign_out<'a>(&'a self, credential: &'a Credential) -> Pending<'a, Result<(), GateError>> {
        Box::pin(async move { Engine::sign_out(self, credential).await.map_err(trouble) })
    }

    fn set_password<'a>(
        &'a self,
        of: &'a Credential,
        password: Password,
    ) -> Pending<'a, Result<(), ProofError>> {
        Box::pin(Engine::set_password(self, of, password))
    }

    fn passkey<'a>(&'a self, id: &'a str) -> Pending<'a, Result<Option<Passkey>, GateError>> {
        Box::pin(async move { Engine::passkey(self, id).await.map_err(trouble) })
    }

    fn passkeys<'a>(&'a self, of: &'a Credential) -> Pending<'a, Result<Vec<Passkey>, ProofError>> {
        Box::pin(Engine::passkeys(self, of))
    }

    fn add_passkey<'a>(
        &'a self,
        of: &'a Credential,
        passkey: Passkey,
        uses: i64,
    ) -> Pending<'a, Result<Passkey, ProofError>> {
        Box::pin(Engine::add_passkey(self, of, passkey, uses))
    }

    fn remove_passkey<'a>(&'a self, of: &'a Credential, id: &'a str) -> Pending<'a, Result<(), ProofError>> {
        Box::pin(Engine::remove_passkey(self, of, id))
    }

    fn takes_presence<'a>(&'a self, id: &'a ApprovalId) -> Pending<'a, Result<bool, GateError>> {
        Box::pin(async move { Engine::takes_presence(self, id).await.map_err(trouble) })
    }

    fn rotate_token<'a>(
        &'a self,
        agent: &'a AgentName,
        by: &'a Credential,
    ) -> Pending<'a, Result<Option<Credential>, TokenError>> {
        Box::pin(Engine::rotate_token_by(self, agent, by))
    }

    fn revoke_token<'a>(
        &'a self,
        agent: &'a AgentName,
        by: &'a Credential,
    ) -> Pending<'a, Result<(), TokenError>> {
        Box::pin(Engine::revoke_token_by(self, agent, by))
    }

    fn operators(&self) -> Pending<'_, Result<Vec<OperatorRow>, GateError>> {
        Box::pin(async move { self.store().all_operators().await.map_err(trouble) })
    }

    fn add_operator<'a>(
        &'a self,
        name: &'a OperatorName,
        role: Role,
        by: &'a Credential,
    ) -> Pending<'a, Result<Credential, PeopleError>> {
        Box::pin(Engine::add_operator(self, name, role, by))
    }

    fn remove_operator<'a>(
        &'a self,
        name: &'a OperatorName,
        by: &'a Credential,
    ) -> Pending<'a, Result<(), PeopleError>> {
        Box::pin(Engine::remove_operator(self, name, by))
    }
}
