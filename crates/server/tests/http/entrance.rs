//! How the stub lets people in: `me` by one password, and whoever has a passkey that was added.

use std::sync::atomic::Ordering;

use contract::{AgentName, ApprovalId, Digest, OperatorName};
use engine::{Credential, Password, PeopleError, ProofError, SignInRefused, SignedIn};
use server::{Entrance, GateError, Pending};
use store::{AddOperatorError, ChangeOperatorError, OperatorRow, Passkey, PresenceError, Role, TokenError};

use crate::stub::{OPERATOR, Stub};

/// What the stub knows `me` by after they came in without their credential.
pub(crate) const VOUCHED: &str = "vouched-for-me";

fn me() -> OperatorName {
    OperatorName::parse("me").unwrap()
}

fn signed_in() -> SignedIn {
    let credential = Digest::of(OPERATOR.as_bytes());
    let operator = OperatorRow { name: me(), role: Role::Admin, credential, added_at: 0, revoked_at: None };
    SignedIn { operator, credential: Credential::presented(VOUCHED) }
}

fn ready<'a, T: Send + 'a>(value: T) -> Pending<'a, T> {
    Box::pin(async move { value })
}

impl Entrance for Stub {
    fn sign_in_by_password<'a>(
        &'a self,
        name: &'a str,
        _: Password,
    ) -> Pending<'a, Result<SignedIn, SignInRefused>> {
        self.note(format!("password {name}"));
        ready(match name {
            "me" => Ok(signed_in()),
            "locked" => Err(SignInRefused::TooMany { again_in: 90_500 }),
            _ => Err(SignInRefused::NotThem),
        })
    }

    fn sign_in_by_passkey<'a>(
        &'a self,
        _: &'a Passkey,
        uses: i64,
    ) -> Pending<'a, Result<SignedIn, SignInRefused>> {
        self.note(format!("passkey uses={uses}"));
        ready(Ok(signed_in()))
    }

    fn turn_away<'a>(&'a self, account: &'a str) -> Pending<'a, SignInRefused> {
        self.note(format!("turned away {account}"));
        ready(SignInRefused::NotThem)
    }

    fn will_make_link<'a>(&'a self, _: &'a Credential) -> Pending<'a, Result<(), GateError>> {
        ready(Ok(()))
    }

    fn came_by_link<'a>(&'a self, _: &'a Credential) -> Pending<'a, Result<(), GateError>> {
        self.came_in.fetch_add(1, Ordering::SeqCst);
        ready(Ok(()))
    }

    fn sign_out<'a>(&'a self, _: &'a Credential) -> Pending<'a, Result<(), GateError>> {
        self.came_in.fetch_sub(1, Ordering::SeqCst);
        ready(Ok(()))
    }

    fn set_password<'a>(&'a self, _: &'a Credential, _: Password) -> Pending<'a, Result<(), ProofError>> {
        self.note("set password".to_owned());
        ready(Ok(()))
    }

    fn passkey<'a>(&'a self, id: &'a str) -> Pending<'a, Result<Option<Passkey>, GateError>> {
        let known = self.passkeys.lock().unwrap().iter().find(|passkey| passkey.id == id).cloned();
        ready(Ok(known))
    }

    fn passkeys<'a>(&'a self, _: &'a Credential) -> Pending<'a, Result<Vec<Passkey>, ProofError>> {
        ready(Ok(self.passkeys.lock().unwrap().clone()))
    }

    fn add_passkey<'a>(
        &'a self,
        _: &'a Credential,
        passkey: Passkey,
        _: i64,
    ) -> Pending<'a, Result<Passkey, ProofError>> {
        self.passkeys.lock().unwrap().push(passkey.clone());
        ready(Ok(passkey))
    }

    fn remove_passkey<'a>(&'a self, _: &'a Credential, id: &'a str) -> Pending<'a, Result<(), ProofError>> {
        let mut passkeys = self.passkeys.lock().unwrap();
        let before = passkeys.len();
        passkeys.retain(|passkey| passkey.id != id);
        let gone = passkeys.len() < before || id == "none";
        ready(if gone { Ok(()) } else { Err(PresenceError::NoPasskey.into()) })
    }

    fn takes_presence<'a>(&'a self, _: &'a ApprovalId) -> Pending<'a, Result<bool, GateError>> {
        ready(Ok(self.sensitive.load(Ordering::SeqCst)))
    }

    fn rotate_token<'a>(
        &'a self,
        agent: &'a AgentName,
        _: &'a Credential,
    ) -> Pending<'a, Result<Option<Credential>, TokenError>> {
        self.note(format!("rotate {agent}"));
        ready(Ok((agent.as_str() == "builder").then(|| Credential::presented("new"))))
    }

    fn revoke_token<'a>(
        &'a self,
        agent: &'a AgentName,
        _: &'a Credential,
    ) -> Pending<'a, Result<(), TokenError>> {
        self.note(format!("revoke {agent}"));
        ready(Ok(()))
    }

    fn operators(&self) -> Pending<'_, Result<Vec<OperatorRow>, GateError>> {
        ready(Ok(vec![signed_in().operator]))
    }

    fn add_operator<'a>(
        &'a self,
        name: &'a OperatorName,
        role: Role,
        _: &'a Credential,
    ) -> Pending<'a, Result<Credential, PeopleError>> {
        self.note(format!("add {name} {}", role.as_str()));
        ready(match name.as_str() {
            "me" => Err(AddOperatorError::NameTaken { name: name.clone() }.into()),
            _ => Ok(Credential::presented("new")),
        })
    }

    fn remove_operator<'a>(
        &'a self,
        name: &'a OperatorName,
        _: &'a Credential,
    ) -> Pending<'a, Result<(), PeopleError>> {
        self.note(format!("remove {name}"));
        let name = name.clone();
        ready(match name.as_str() {
            "me" => Err(ChangeOperatorError::LastAdmin { name }.into()),
            "nobody" => Err(ChangeOperatorError::Unknown { name }.into()),
            _ => Ok(()),
        })
    }
}
