//! Any bytes either are a configuration, or are refused with the line and the column of what is wrong: no panic, no
//! memory beyond what the bytes are worth. One that is accepted has a name by which decisions cite it.
#![no_main]

#[path = "../../crates/cli/src/amount.rs"]
#[expect(dead_code, reason = "the command line uses the rest")]
mod amount;
#[path = "../../crates/cli/src/config/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the command line uses the rest")]
mod config;

use std::path::PathBuf;
use std::sync::OnceLock;

use config::{LoadError, load_file};
use libfuzzer_sys::fuzz_target;

/// Where the bytes are put to be loaded as a file is. In memory, for speed.
fn file(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let made = || {
        let folder = PathBuf::from(format!("/dev/shm/toolgate-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        folder
    };
    FOLDER.get_or_init(made).join(name)
}

fuzz_target!(
    init: {
        let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus/configuration");
        let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crates/cli/tests/examples");
        std::fs::create_dir_all(&corpus).expect("a folder can be made");
        for example in std::fs::read_dir(examples).expect("there are examples").flatten() {
            std::fs::copy(example.path(), corpus.join(example.file_name())).expect("an example can be copied");
        }
    },
    |bytes: &[u8]| {
        for name in ["toolgate.yaml", "toolgate.json"] {
            let path = file(name);
            std::fs::write(&path, bytes).expect("a file can be written");
            match load_file(&path) {
                Ok(loaded) => {
                    loaded.meaning.settings.hash().expect("what is accepted has a name");
                }
                Err(LoadError::Invalid { problems, .. }) => {
                    assert!(!problems.is_empty(), "a refusal says why");
                    for problem in problems {
                        assert!(problem.place.line >= 1 && problem.place.column >= 1, "{problem}");
                        assert!(!problem.message.is_empty() && !problem.message.contains(['\n', '\u{1b}']), "{problem}");
                    }
                }
                Err(LoadError::TooLarge { .. }) => assert!(bytes.len() > 1 << 20),
                Err(other) => panic!("a file of our own: {other}"),
            }
        }
    }
);
