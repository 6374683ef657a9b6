//! Which directories of a host are the system's own, and what of them can be granted.

use std::path::Path;

/// Installed software, shown read-only in every sandbox where it exists.
pub(crate) const SOFTWARE: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// How it boots and what it is set to.
const SETTINGS: [&str; 2] = ["/boot", "/etc"];

/// Windows into the kernel.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Where the sockets of its services are.
const SERVICES: [&str; 2] = ["/run", "/var/run"];

/// Whether a directory, or one above it, is the system's own: nothing a person works in.
pub fn is_of_the_system(path: &Path) -> bool {
    is_within(path, &SOFTWARE)
        || is_within(path, &SETTINGS)
        || is_within(path, &KERNEL)
        || is_within(path, &SERVICES)
}

/// Whether it can be seen by everyone on the host, software by other vendors included.
pub(crate) fn is_public(path: &Path) -> bool {
    is_within(path, &SOFTWARE) || is_within(path, &SETTINGS) || path.starts_with("/opt")
}

/// Whether it cannot be shown at all: the kernel, sockets of the host, or everything at once.
pub(crate) fn is_never_shown(path: &Path) -> bool {
    is_within(path, &KERNEL) || is_one_of(path, &SERVICES) || path == Path::new("/")
}

/// Whether it cannot be granted for writing: the system itself, or all of a kind at once.
pub(crate) fn is_never_writable(path: &Path) -> bool {
    is_never_shown(path)
        || is_within(path, &SOFTWARE)
        || is_within(path, &SETTINGS)
        || is_one_of(path, &["/home", "/opt", "/var"])
}

fn is_one_of(path: &Path, list: &[&str]) -> bool {
    list.iter().any(|known| path == Path::new(known))
}

fn is_within(path: &Path, list: &[&str]) -> bool {
    list.iter().any(|known| path.starts_with(known))
}
