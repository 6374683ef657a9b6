//! How `toolgate up` is reached from outside: by which certificate, and under which names.

use std::path::PathBuf;

use super::Reader;
use crate::config::file::File;
use crate::config::problem::shown;

/// A certificate, its key, and the names that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) names: Vec<String>,
}

impl Reader {
    pub(super) fn tls(&mut self, tree: &File) -> Option<Tls> {
        let section = tree.tls.at()?;
        let file = &section.value;
        let (certificate, key) = (file.certificate.at(), file.key.at());
        for (name, given) in [("certificate", certificate.is_some()), ("key", key.is_some())] {
            if !given {
                self.refuse(section.place, format!("`tls` has no `{name}`"));
            }
        }
        let mut names = Vec::new();
        for name in file.names.get().into_iter().flatten() {
            // As it stands in `Host`: a name or an address, without a port.
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '[' | ']' | ':');
            let is_name =
                !name.value.is_empty() && name.value.len() <= 253 && name.value.chars().all(is_part);
            let has_port = name.value.contains(':') && !name.value.ends_with(']');
            if is_name && !has_port {
                names.push(name.value.clone());
            } else {
                self.refuse(name.place, format!("`{}` is not the name of a host", shown(&name.value)));
            }
        }
        let (certificate, key) = (self.path(certificate?), self.path(key?));
        Some(Tls { certificate: certificate?, key: key?, names })
    }
}
