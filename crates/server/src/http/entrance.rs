//! What the HTTP surface needs of the gate to let people in, and to hand out what agents come in with.

use contract::{AgentName, ApprovalId, OperatorName};
use engine::{Credential, Password, PeopleError, ProofError, SignInRefused, SignedIn};
use store::{OperatorRow, Passkey, Role, TokenError};

use super::gate::{GateError, Pending};

/// Everything that can be asked of a gate about who comes in.
pub trait Entrance: Send + Sync {
    /// Lets somebody in who knows the password of that name.
    fn sign_in_by_password<'a>(
        &'a self,
        name: &'a str,
        password: Password,
    ) -> Pending<'a, Result<SignedIn, SignInRefused>>;

    /// Lets somebody in whose authenticator has signed, by the key of this passkey.
    fn sign_in_by_passkey<'a>(
        &'a self,
        passkey: &'a Passkey,
        uses: i64,
    ) -> Pending<'a, Result<SignedIn, SignInRefused>>;

    /// Tells that somebody was not let in by passkey.
    fn turn_away<'a>(&'a self, account: &'a str) -> Pending<'a, SignInRefused>;

    /// Tells that somebody has a link made for them, before it is.
    fn will_make_link<'a>(&'a self, credential: &'a Credential) -> Pending<'a, Result<(), GateError>>;

    /// Tells that somebody came in by a link.
    fn came_by_link<'a>(&'a self, credential: &'a Credential) -> Pending<'a, Result<(), GateError>>;

    /// Ends what somebody came in with.
    fn sign_out<'a>(&'a self, credential: &'a Credential) -> Pending<'a, Result<(), GateError>>;

    /// Gives somebody another password.
    fn set_password<'a>(
        &'a self,
        of: &'a Credential,
        password: Password,
    ) -> Pending<'a, Result<(), ProofError>>;

    /// The passkey of an id.
    fn passkey<'a>(&'a self, id: &'a str) -> Pending<'a, Result<Option<Passkey>, GateError>>;

    /// Somebody's passkeys.
    fn passkeys<'a>(&'a self, of: &'a Credential) -> Pending<'a, Result<Vec<Passkey>, ProofError>>;

    /// Adds one.
    fn add_passkey<'a>(
        &'a self,
        of: &'a Credential,
        passkey: Passkey,
        uses: i64,
    ) -> Pending<'a, Result<Passkey, ProofError>>;

    /// Takes one away.
    fn remove_passkey<'a>(&'a self, of: &'a Credential, id: &'a str) -> Pending<'a, Result<(), ProofError>>;

    /// Whether a yes to this question takes a fresh proof that whoever gives it is there.
    fn takes_presence<'a>(&'a self, id: &'a ApprovalId) -> Pending<'a, Result<bool, GateError>>;

    /// Issues another token for an agent; the old one is nobody's from now on. Nothing if there is no such agent.
    fn rotate_token<'a>(
        &'a self,
        agent: &'a AgentName,
        by: &'a Credential,
    ) -> Pending<'a, Result<Option<Credential>, TokenError>>;

    /// Revokes an agent's token, at once.
    fn revoke_token<'a>(
        &'a self,
        agent: &'a AgentName,
        by: &'a Credential,
    ) -> Pending<'a, Result<(), TokenError>>;

    /// Everybody who is an operator or was one, by name.
    fn operators(&self) -> Pending<'_, Result<Vec<OperatorRow>, GateError>>;

    /// Adds an operator; what they come in with.
    fn add_operator<'a>(
        &'a self,
        name: &'a OperatorName,
        role: Role,
        by: &'a Credential,
    ) -> Pending<'a, Result<Credential, PeopleError>>;

    /// Takes an operator's authority, at once.
    fn remove_operator<'a>(
        &'a self,
        name: &'a OperatorName,
        by: &'a Credential,
    ) -> Pending<'a, Result<(), PeopleError>>;
}
