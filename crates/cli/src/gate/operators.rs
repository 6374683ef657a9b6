//! `toolgate operators`: the people who decide.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use contract::OperatorName;
use engine::{Credential, LocalOperator, PeopleError};
use serde_json::json;
use store::Role;

use super::ledger::time;
use super::open::{Gate, Opened};
use super::person::Person;
use super::{CODE_DONE, Trouble};
use crate::talk;

const AFTER_HELP: &str = "\
A credential is shown once and kept nowhere; the store has its hash. Whoever has it is that operator: with
TOOLGATE_OPERATOR_KEY or --key-file on the command line, as a bearer token over HTTP. Adding and removing takes an
admin's. Names are not given twice, so that the ledger always means the same person.";

/// Show, add and remove the people who decide
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct OperatorsArguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

#[derive(Subcommand)]
enum Command {
    /// One line for each
    List {
        /// Those who were removed, too
        #[arg(long)]
        all: bool,
    },
    /// Add somebody, and print their credential once
    Add {
        /// Their name
        name: String,

        /// A viewer looks, an approver answers, and an admin adds and removes people
        #[arg(long, value_name = "ROLE")]
        role: RoleWord,

        #[command(flatten)]
        new: NewCredential,

        #[command(flatten)]
        person: Person,
    },
    /// Take somebody's authority, at once: nothing they said counts any more
    #[command(alias = "revoke")]
    Remove {
        /// Who
        name: String,

        #[command(flatten)]
        person: Person,
    },
    /// Give somebody another credential; the old one ends at once
    Rotate {
        /// Who; everybody may do it for themselves
        name: String,

        #[command(flatten)]
        new: NewCredential,

        #[command(flatten)]
        person: Person,
    },
    /// Make a new operator.key for `me` when the old one is lost; takes Toolgate's home, and the ledger says so
    Recover,
}

/// Where a new credential goes.
#[derive(Args)]
struct NewCredential {
    /// Write the credential to a new file, for its owner alone, instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum RoleWord {
    Viewer,
    Approver,
    Admin,
}

pub(crate) async fn operators(arguments: OperatorsArguments) -> Result<i32, Trouble> {
    let opened = arguments.gate.open_for_people().await?;
    let json = arguments.gate.json;
    match arguments.command {
        Command::List { all } => list(&opened, all, json).await?,
        Command::Add { name, role, new, person } => {
            let name = OperatorName::parse(&name)?;
            let by = person.credential(&opened).await?;
            new.check()?;
            let credential = opened.engine.add_operator(&name, role.into(), &by).await.map_err(explain)?;
            new.hand_over(&name, &credential, json)?;
        }
        Command::Remove { name, person } => {
            let name = OperatorName::parse(&name)?;
            let by = person.credential(&opened).await?;
            opened.engine.remove_operator(&name, &by).await.map_err(explain)?;
            talk::data_or_say(
                json,
                &json!({ "operator": name, "removed": true }),
                &format!("removed: `{name}`"),
            );
        }
        Command::Rotate { name, new, person } => {
            let name = OperatorName::parse(&name)?;
            let by = person.credential(&opened).await?;
            new.check()?;
            let credential = opened.engine.rotate_operator(&name, &by).await.map_err(explain)?;
            new.hand_over(&name, &credential, json)?;
        }
        Command::Recover => recover(&opened, json).await?,
    }
    Ok(CODE_DONE)
}

async fn list(opened: &Opened, all: bool, json: bool) -> Result<(), Trouble> {
    let store = opened.engine.store();
    let operators = if all { store.all_operators().await? } else { store.operators().await? };
    if json {
        let rows: Vec<_> = operators
            .iter()
            .map(|row| {
                json!({ "name": row.name, "role": row.role, "added_at": row.added_at, "removed_at": row.revoked_at })
            })
            .collect();
        talk::json(&rows);
        return Ok(());
    }
    for row in operators {
        let removed = row.revoked_at.map(|at| format!("  removed {}", time(at))).unwrap_or_default();
        talk::data(&format!(
            "{:<16} {:<9} since {}{removed}",
            row.name.as_str(),
            row.role.as_str(),
            time(row.added_at)
        ));
    }
    Ok(())
}

async fn recover(opened: &Opened, json: bool) -> Result<(), Trouble> {
    if let LocalOperator::Known(name) = opened.engine.local_operator() {
        let error = anyhow!("nothing is lost: the credential in Toolgate's home is `{name}`'s");
        return Err(Trouble::from(error).with_hint("`toolgate operators rotate` gives somebody another one"));
    }
    let path = Credential::local(&opened.home);
    let aside = path.with_extension("key.lost");
    if path.exists() {
        std::fs::rename(&path, &aside).with_context(|| format!("cannot move `{}` aside", path.display()))?;
    }
    let (name, credential) = opened.engine.recover_local_operator().await.map_err(explain)?;
    credential.save(&path)?;
    let text = format!("recovered: `{name}` has a new credential in `{}`", path.display());
    talk::data_or_say(json, &json!({ "operator": name, "file": path }), &text);
    Ok(())
}

impl NewCredential {
    /// Whether there is a place for it, before the old one ends.
    fn check(&self) -> Result<(), Trouble> {
        match &self.out {
            Some(path) if path.exists() => Err(anyhow!("`{}` is there already", path.display()).into()),
            Some(path) if !path.parent().is_none_or(|folder| folder == Path::new("") || folder.is_dir()) => {
                Err(anyhow!("there is no folder for `{}`", path.display()).into())
            }
            _ => Ok(()),
        }
    }

    fn hand_over(&self, name: &OperatorName, credential: &Credential, json: bool) -> Result<(), Trouble> {
        let Some(path) = &self.out else {
            if json {
                talk::data(&json!({ "operator": name, "credential": credential.reveal() }).to_string());
            } else {
                talk::data(credential.reveal());
                talk::hint(&format!("this is `{name}`'s credential; it is not kept, and not shown again"));
            }
            return Ok(());
        };
        credential.save(path)?;
        let text = format!("`{name}`'s credential is in `{}`, and nowhere else", path.display());
        talk::data_or_say(json, &json!({ "operator": name, "file": path }), &text);
        Ok(())
    }
}

fn explain(error: PeopleError) -> Trouble {
    match &error {
        PeopleError::NotAnOperator | PeopleError::Add(_) | PeopleError::Change(_) => {
            Trouble::refused(error.into())
        }
        PeopleError::Credential(_) | PeopleError::Engine(_) => error.into(),
    }
}

impl From<RoleWord> for Role {
    fn from(word: RoleWord) -> Role {
        match word {
            RoleWord::Viewer => Role::Viewer,
            RoleWord::Approver => Role::Approver,
            RoleWord::Admin => Role::Admin,
        }
    }
}
