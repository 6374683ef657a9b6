//! Secrets that are added on the way out: to whom, as what, and where they are to be had.
//!
//! # Invariants
//! - Nothing here repeats what may be a secret: somebody may have written it where only its place belongs.

use contract::Private;
use policy::{Credential, CredentialForm, SecretSource};

use super::Reader;
use super::limits::is_variable;
use crate::config::at::{At, Given};
use crate::config::file::CredentialFile;
use crate::way_out::injection_of;

const SOURCES: &str = "a secret does not stand here, but where it is to be had: `env:NAME`, `file:PATH`, `vault:PATH#FIELD` or `keyring:NAME`";

impl Reader {
    pub(super) fn credential(&mut self, at: &At<CredentialFile>, private: &Private) -> Option<Credential> {
        let file = &at.value;
        for (key, given) in [("host", file.host.at()), ("from", file.from.at())] {
            if given.is_none() {
                self.refuse(at.place, format!("`{key}` is missing in a credential"));
            }
        }
        let usual = if file.ssh_key.get() == Some(&true) { 22 } else { 443 };
        let to = file.host.at().and_then(|host| self.secret_place(host, usual, private));
        let from = file.from.at().and_then(|from| self.source(from));
        let form = self.form(at);
        if let Some(Err(error)) = form.as_ref().map(|form| injection_of(form).check()) {
            self.refuse(at.place, error.to_string());
        }
        Some(Credential { to: to?, form: form?, from: from? })
    }

    /// The one way that was given.
    fn form(&mut self, at: &At<CredentialFile>) -> Option<CredentialForm> {
        let file = &at.value;
        let given = [
            file.header.at().is_some(),
            file.bearer.get() == Some(&true),
            file.basic.at().is_some(),
            file.query.at().is_some(),
            file.body.at().is_some(),
            file.sigv4.at().is_some(),
            file.ssh_key.get() == Some(&true),
        ];
        if given.into_iter().filter(|given| *given).count() != 1 {
            let why = "a credential is added in one way: `header`, `bearer: true`, `basic`, `query`, `body`, `sigv4` or `ssh_key: true`";
            self.refuse(at.place, why);
            return None;
        }
        if let Some(name) = file.header.at() {
            return self.header_name(name).map(CredentialForm::Header);
        }
        if let Some(user) = self.word("basic", &file.basic) {
            return Some(CredentialForm::Basic { user });
        }
        if let Some(name) = self.word("query", &file.query) {
            return Some(CredentialForm::Query(name));
        }
        if let Some(placeholder) = self.word("body", &file.body) {
            return Some(CredentialForm::Body { placeholder });
        }
        if file.ssh_key.get() == Some(&true) {
            return Some(CredentialForm::SshKey);
        }
        let Some(sigv4) = file.sigv4.at() else {
            return (file.bearer.get() == Some(&true)).then_some(CredentialForm::Bearer);
        };
        let keys = [
            ("access_key", &sigv4.value.access_key),
            ("region", &sigv4.value.region),
            ("service", &sigv4.value.service),
        ];
        let [key, region, service] = keys.map(|(name, given)| {
            if given.at().is_none() {
                self.refuse(sigv4.place, format!("`{name}` is missing in `sigv4`"));
            }
            self.word(name, given)
        });
        Some(CredentialForm::Sigv4 { key: key?, region: region?, service: service? })
    }

    /// A word of a request, without what would end it.
    fn word(&mut self, name: &str, given: &Given<String>) -> Option<String> {
        let at = given.at()?;
        let is_word = (1..=128).contains(&at.value.len())
            && at.value.bytes().all(|byte| byte.is_ascii_graphic())
            && (name != "basic" || !at.value.contains(':'));
        if is_word {
            return Some(at.value.clone());
        }
        self.refuse(at.place, format!("`{name}` is one word of plain characters, 128 at most"));
        None
    }

    /// Where a secret is to be had.
    pub(super) fn source(&mut self, text: &At<String>) -> Option<SecretSource> {
        let (kind, rest) = text.value.split_once(':').unwrap_or((text.value.as_str(), ""));
        let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_entry =
            |path: &str| is_plain(path) && !path.split('/').any(|part| matches!(part, "" | "." | ".."));
        let source = match (kind, rest.split_once('#')) {
            ("env", _) if is_variable(rest) => Some(SecretSource::Variable(rest.to_owned())),
            ("file", _) if !rest.is_empty() => {
                let path = At { value: rest.to_owned(), place: text.place };
                return self.path(&path).map(SecretSource::File);
            }
            ("vault", Some((path, field))) if is_entry(path) && is_plain(field) => {
                Some(SecretSource::Vault { path: path.to_owned(), field: field.to_owned() })
            }
            ("keyring", _) if is_plain(rest) => Some(SecretSource::Keyring(rest.to_owned())),
            _ => None,
        };
        if source.is_none() {
            self.refuse(text.place, SOURCES);
        }
        source
    }
}
