//! The credential by which a person or an agent is known.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use contract::Digest;
use thiserror::Error;
use zeroize::Zeroizing;

/// Where the local operator's credential is kept, in Toolgate's home.
const FILE: &str = "operator.key";
/// Characters that a credential has at least; ours have 64.
const SHORTEST: usize = 32;

/// A secret that only one operator, or one agent, has.
pub struct Credential(Zeroizing<String>);

/// Why there is no credential.
#[derive(Debug, Error)]
pub enum CredentialError {
    /// The file cannot be read or made.
    #[error("cannot use the credential `{}`", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others could read it.
    #[error("the credential `{}` can be read by others (mode {mode:o}): run `chmod 600` on it, or make a new one if they may have read it", path.display())]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It does not hold a whole credential.
    #[error("the credential `{}` is not whole: remove it, then `toolgate operators recover` makes a new one for an operator, and `toolgate agents` for an agent", path.display())]
    Broken {
        /// Which file.
        path: PathBuf,
    },
    /// No random bytes.
    #[error("the system gives no random bytes")]
    Random(#[source] getrandom::Error),
}

impl Credential {
    /// A credential that somebody presents.
    pub fn presented(text: &str) -> Credential {
        Credential(Zeroizing::new(text.trim().to_owned()))
    }

    /// A new one.
    pub fn random() -> Result<Credential, CredentialError> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        getrandom::fill(bytes.as_mut()).map_err(CredentialError::Random)?;
        Ok(Credential(Zeroizing::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect())))
    }

    /// Where the local operator's is kept.
    pub fn local(home: &Path) -> PathBuf {
        home.join(FILE)
    }

    /// The one in a file, if there is one.
    pub fn load(path: &Path) -> Result<Option<Credential>, CredentialError> {
        match read(path) {
            Ok(credential) => credential.map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(CredentialError::File { path: path.to_owned(), source }),
        }
    }

    /// Writes it to a new file, for its owner alone. One that is there stays as it is.
    pub fn save(&self, path: &Path) -> Result<(), CredentialError> {
        let failed = |source| CredentialError::File { path: path.to_owned(), source };
        make(path, self.0.as_bytes()).map_err(failed)
    }

    /// The local operator's, made if there is none yet.
    pub fn load_or_create(home: &Path) -> Result<Credential, CredentialError> {
        Credential::load_or_create_at(&Credential::local(home))
    }

    /// The one in a file, made if there is none yet.
    pub fn load_or_create_at(path: &Path) -> Result<Credential, CredentialError> {
        let path = path.to_owned();
        let failed = |source| CredentialError::File { path: path.clone(), source };
        match read(&path) {
            Ok(credential) => credential,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let credential = Credential::random()?;
                match make(&path, credential.0.as_bytes()) {
                    Ok(()) => Ok(credential),
                    // Another process was faster.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        read(&path).map_err(failed)?
                    }
                    Err(error) => Err(failed(error)),
                }
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// The secret itself, for its owner to see.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What the store keeps of it.
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

fn read(path: &Path) -> io::Result<Result<Credential, CredentialError>> {
    let mut file = fs::File::open(path)?;
    let mode = file.metadata()?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Ok(Err(CredentialError::Exposed { path: path.to_owned(), mode }));
    }
    let mut text = Zeroizing::new(String::new());
    Read::by_ref(&mut file).take(1024).read_to_string(&mut text)?;
    let credential = Credential::presented(&text);
    // ATTACK(empty-credential): what a full disk or a crash has left of a file is a secret that everybody knows.
    if credential.0.len() < SHORTEST {
        return Ok(Err(CredentialError::Broken { path: path.to_owned() }));
    }
    Ok(Ok(credential))
}

/// Makes the file whole or not at all: it gets its name when everything is written, and takes nobody else's.
fn make(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = [0_u8; 8];
    getrandom::fill(&mut name).map_err(io::Error::other)?;
    let unnamed = path.with_extension(format!("{:016x}", u64::from_ne_bytes(name)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unnamed)?;
    let made =
        file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::hard_link(&unnamed, path));
    let _ = fs::remove_file(&unnamed);
    made
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credential(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_made_once_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let first = Credential::load_or_create(home.path()).unwrap();
        let mode = fs::metadata(home.path().join(FILE)).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert_eq!(Credential::load_or_create(home.path()).unwrap().digest(), first.digest());
    }

    #[test]
    fn one_that_others_can_read_is_refused() {
        let home = tempfile::tempdir().unwrap();
        Credential::load_or_create(home.path()).unwrap();
        fs::set_permissions(home.path().join(FILE), fs::Permissions::from_mode(0o644)).unwrap();
        let error = Credential::load_or_create(home.path()).unwrap_err();
        assert!(matches!(error, CredentialError::Exposed { mode: 0o644, .. }));
    }

    #[test]
    fn one_that_was_cut_off_is_refused() {
        let home = tempfile::tempdir().unwrap();
        for left in ["", "\n", "abc"] {
            fs::write(home.path().join(FILE), left).unwrap();
            fs::set_permissions(home.path().join(FILE), fs::Permissions::from_mode(0o600)).unwrap();
            let error = Credential::load_or_create(home.path()).unwrap_err();
            assert!(matches!(error, CredentialError::Broken { .. }), "{left:?}");
        }
    }

    #[test]
    fn making_it_leaves_nothing_else_behind() {
        let home = tempfile::tempdir().unwrap();
        Credential::load_or_create(home.path()).unwrap();
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn it_does_not_show_itself() {
        assert_eq!(format!("{:?}", Credential::presented("secret")), "Credential(..)");
    }
}
