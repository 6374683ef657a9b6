//! What runs the calls of each category.

use std::collections::BTreeMap;

use contract::Category;
use sandbox::BackendName;

use super::Reader;
use crate::config::at::{At, Place};
use crate::config::file::File;
use crate::config::word::{Backend, BackendWord};

impl Reader {
    /// The backend of every category, and why some cannot run at all.
    pub(super) fn backends(
        &mut self,
        tree: &File,
    ) -> (BTreeMap<Category, BackendName>, BTreeMap<Category, String>) {
        let (mut backends, mut unavailable) = (BTreeMap::new(), BTreeMap::new());
        for category in Category::ALL.iter().copied() {
            let chosen = chosen(tree, category);
            let backend = chosen.map_or(Backend::Native, |chosen| chosen.value.0);
            match available(backend, category) {
                Some(name) => {
                    backends.insert(category, name);
                }
                None => {
                    let word = BackendWord(backend).as_str();
                    let why = match backend {
                        Backend::Deny => format!("the configuration lets nothing run `{category}`"),
                        _ => format!(
                            "the configuration runs `{category}` in `{word}`, which this version does not have"
                        ),
                    };
                    if backend != Backend::Deny {
                        let place = chosen.map_or(Place::START, |chosen| chosen.place);
                        let message =
                            format!("`{category}` is refused: this version has no backend `{word}`");
                        self.warn(place, message);
                    }
                    unavailable.insert(category, why);
                    backends.insert(category, BackendName::Deny);
                }
            }
        }
        (backends, unavailable)
    }
}

/// What the configuration asks for.
pub(super) fn chosen(tree: &File, category: Category) -> Option<At<BackendWord>> {
    let sandboxing = tree.sandboxing.get();
    let overrides = sandboxing.and_then(|sandboxing| sandboxing.overrides.get());
    let own = overrides.and_then(|overrides| overrides.of(category)).copied();
    let default = sandboxing.and_then(|sandboxing| sandboxing.default_backend.at()).copied();
    own.or_else(|| code_in_containers(tree, category)).or(default)
}

/// Whether the configuration asks for containers.
pub(super) fn runs_in_docker(tree: &File, category: Category) -> bool {
    chosen(tree, category).is_some_and(|chosen| chosen.value.0 == Backend::Docker)
}

/// `tools.sandbox` asks for containers for code. Switched off it asks for nothing, and the native walls stay.
fn code_in_containers(tree: &File, category: Category) -> Option<At<BackendWord>> {
    let enabled = tree.tools.get()?.sandbox.get()?.enabled.at()?;
    let asks = enabled.value && category == Category::CodeExecution;
    asks.then_some(At { value: BackendWord(Backend::Docker), place: enabled.place })
}

/// What runs a category here, if anything that was asked for can.
fn available(backend: Backend, category: Category) -> Option<BackendName> {
    match backend {
        Backend::Native => Some(BackendName::Native),
        // A plain process never runs code, commands or what reaches out: there the walls must stand.
        Backend::Subprocess if needs_walls(category) => Some(BackendName::Native),
        Backend::Subprocess => Some(BackendName::Subprocess),
        Backend::Deny | Backend::Docker | Backend::Kubernetes | Backend::Microvm | Backend::Remote => None,
    }
}

fn needs_walls(category: Category) -> bool {
    match category {
        Category::FileSystem
        | Category::VersionControl
        | Category::Memory
        | Category::Design
        | Category::Analytics => false,
        Category::CodeExecution
        | Category::Terminal
        | Category::Web
        | Category::Database
        | Category::Communication
        | Category::Deployment
        | Category::Mcp
        | Category::Other => true,
    }
}
