//! Stores that are files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use store::{Keys, OpenError, RecordError, Store, StoreError};

use crate::disk::{disk, grow, run_on_small_disk};
use crate::full::fill_and_go_on;
use crate::gate::{Gate, running};

fn home() -> (tempfile::TempDir, Keys) {
    let home = tempfile::tempdir().unwrap();
    let keys = Keys::load_or_create(home.path()).unwrap();
    (home, keys)
}

async fn open(path: &Path, keys: &Keys) -> Result<Store, OpenError> {
    Store::open(&format!("sqlite:{}", path.display()), keys.clone()).await
}

#[tokio::test]
async fn a_new_store_is_for_its_owner_alone() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        let mode = fs::metadata(gate.home.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
}

#[tokio::test]
async fn only_files_and_servers_are_stores() {
    let (home, keys) = home();
    for url in ["", "mysql://host/db", "sqlite:", "sqlite::memory:", "/tmp/x", "sqlite:file:x?mode=memory"] {
        let error = Store::open(url, keys.clone()).await.unwrap_err();
        assert!(matches!(error, OpenError::UnsupportedUrl { .. }), "{url}: {error}");
    }
    let error = open(home.path(), &keys).await.unwrap_err();
    assert!(matches!(error, OpenError::NotAStore { .. }), "{error}");
}

#[tokio::test]
async fn a_folder_that_is_missing_or_takes_no_files_is_named() {
    let (home, keys) = home();
    for path in [home.path().join("missing/store.db"), "/proc/store.db".into()] {
        let error = open(&path, &keys).await.unwrap_err();
        assert!(matches!(error, OpenError::Folder { .. }), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()));
    }
}

#[tokio::test]
async fn a_read_only_store_is_refused() {
    let gate = Gate::open().await;
    gate.store.close().await;
    let path = gate.home.path().join("store.db");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    let error = open(&path, gate.store.keys()).await.unwrap_err();
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error}");
}

#[tokio::test]
async fn what_is_not_a_store_is_refused_and_left_as_it_is() {
    let (home, keys) = home();
    let text = home.path().join("text");
    let content = "not a database at all, but long enough to be looked at as one\n".repeat(20);
    fs::write(&text, &content).unwrap();
    let error = open(&text, &keys).await.unwrap_err();
    assert!(matches!(error, OpenError::NotAStore { .. }), "{error}");
    assert_eq!(fs::read_to_string(&text).unwrap(), content);

    let other = home.path().join("other.db");
    let connection = rusqlite::Connection::open(&other).unwrap();
    connection.execute_batch("CREATE TABLE accounts (id INTEGER)").unwrap();
    connection.close().unwrap();
    let error = open(&other, &keys).await.unwrap_err();
    assert!(matches!(error, OpenError::NotAStore { .. }), "{error}");
}

#[tokio::test]
async fn a_file_may_have_any_name() {
    let (home, keys) = home();
    for name in ["a b.db", "a%20b.db", "a?mode=memory", "a#b", "ä.db", "..db", "a+b&c=d;e"] {
        let path = home.path().join(name);
        open(&path, &keys).await.unwrap();
        assert!(fs::metadata(&path).unwrap().len() > 0, "{name}");
    }
    let folder = home.path().join("folder");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&folder, home.path().join("link")).unwrap();
    // By way of a link `..` is another folder than the name says.
    open(&home.path().join("link/../there.db"), &keys).await.unwrap();
    assert!(home.path().join("there.db").exists());
}

#[test]
fn a_full_disk_stops_the_call_loses_nothing_and_is_used_again_when_there_is_room() {
    run_on_small_disk("files::a_disk_that_fills", &["--user", "--map-root-user", "--mount"], "native");
}

#[tokio::test]
#[ignore = "it needs a small disk: the test above runs it"]
async fn a_disk_that_fills() {
    let (_home, keys) = home();
    let disk = disk();
    let store = open(&disk.join("store.db"), &keys).await.unwrap();
    fill_and_go_on(&store, || grow(&disk)).await;
}

#[tokio::test]
async fn nothing_is_recorded_in_a_file_that_nobody_would_find() {
    let gate = Gate::open().await;
    gate.record(running(1)).await;
    let (path, away) = (gate.home.path().join("store.db"), gate.home.path().join("away.db"));
    fs::rename(&path, &away).unwrap();
    let error = gate.store.record_call(running(2)).await.unwrap_err();
    assert!(matches!(error, RecordError::Store(StoreError::Gone)), "{error}");
    fs::write(&path, "").unwrap();
    let error = gate.store.record_call(running(2)).await.unwrap_err();
    assert!(matches!(error, RecordError::Store(StoreError::Gone)), "another file: {error}");
    fs::rename(&away, &path).unwrap();
    gate.record(running(2)).await;
    gate.store.verify(None).await.unwrap();
}
