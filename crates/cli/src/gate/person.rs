//! As which operator a command is given: the credential, and whose it is.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use engine::{Credential, LocalOperator};
use store::OperatorRow;

use super::Trouble;
use super::open::Opened;
use crate::config;

/// Who decides.
#[derive(Args, Clone, Default)]
pub(crate) struct Person {
    /// As this operator; the credential has to be theirs
    #[arg(long = "as", value_name = "NAME")]
    operator: Option<String>,

    /// The operator's credential; else TOOLGATE_OPERATOR_KEY, or operator.key in TOOLGATE_HOME
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl Person {
    /// The credential, after a look at whose it is.
    pub(crate) async fn credential(&self, opened: &Opened) -> Result<Credential, Trouble> {
        let credential = self.find(opened)?;
        let operator = opened.engine.operator_of(&credential).await?;
        self.check(operator.as_ref())?;
        Ok(credential)
    }

    fn find(&self, opened: &Opened) -> Result<Credential, Trouble> {
        if let Some(path) = &self.key_file {
            let missing = || anyhow!("there is no credential at `{}`", path.display());
            return Ok(Credential::load(path)?.ok_or_else(missing)?);
        }
        if let Some(key) = config::operator_key() {
            return Ok(Credential::presented(&key));
        }
        if let Some(trouble) = lost(opened.engine.local_operator()) {
            return Err(trouble);
        }
        Ok(Credential::load(&Credential::local(&opened.home))?
            .ok_or_else(|| anyhow!("the credential is gone"))?)
    }

    fn check(&self, operator: Option<&OperatorRow>) -> Result<(), Trouble> {
        let Some(operator) = operator else {
            let error = anyhow!("only an operator can do this, and this credential is nobody's");
            return Err(Trouble::refused(error).with_hint("`toolgate operators list` shows who there is"));
        };
        match &self.operator {
            Some(name) if name != operator.name.as_str() => {
                let error = anyhow!("the credential is `{}`'s, not `{name}`'s", operator.name);
                let hint = "give theirs with --key-file or TOOLGATE_OPERATOR_KEY";
                Err(Trouble::refused(error).with_hint(hint))
            }
            _ => Ok(()),
        }
    }
}

/// What to say where the local credential is lost, and how to get it back.
pub(crate) fn lost(local: &LocalOperator) -> Option<Trouble> {
    let error = match local {
        LocalOperator::Known(_) => return None,
        LocalOperator::KeyMissing { path } => {
            anyhow!("the credential `{}` is gone, and with it the operator `me`", path.display())
        }
        LocalOperator::KeyOfNobody { path } => {
            anyhow!(
                "the credential `{}` is nobody's: it is not the one that `me` was made with",
                path.display()
            )
        }
    };
    Some(Trouble::refused(error).with_hint(
        "put the old one back, or let `toolgate operators recover` make a new one; the ledger will say so",
    ))
}
