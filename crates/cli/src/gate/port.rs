//! Who has a port of this machine, as far as the caller may know.

use std::fs;
use std::path::Path;

/// The state of a socket that listens, in the kernel's table.
const LISTENING: &str = "0A";

/// The process that listens on a port: its name and number. Nothing if it is somebody else's.
pub(super) fn holder_of(port: u16) -> Option<String> {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening_on(&table, port))
        .map(|number| format!("socket:[{number}]"))
        .collect();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let mut processes: Vec<u32> = fs::read_dir("/proc").ok()?.flatten().filter_map(number).collect();
    // A child may hold what its parent has opened; it is the parent that is meant, and the older one.
    processes.sort_unstable();
    let place = |number: u32| Path::new("/proc").join(number.to_string());
    let number = processes.into_iter().find(|number| holds_one_of(&place(*number), &sockets))?;
    let name = fs::read_to_string(place(number).join("comm")).ok()?;
    Some(format!("`{}` (process {number})", contract::show_hidden(name.trim())))
}

/// The numbers of the sockets in a table of the kernel's that listen on a port.
fn listening_on(table: &str, port: u16) -> Vec<String> {
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let matches = u16::from_str_radix(local, 16) == Ok(port) && fields.get(3) == Some(&LISTENING);
        matches.then(|| fields.get(9).map(|number| (*number).to_owned()))?
    };
    table.lines().filter_map(socket).collect()
}

fn holds_one_of(process: &Path, sockets: &[String]) -> bool {
    let Ok(open) = fs::read_dir(process.join("fd")) else { return false };
    let mut targets = open.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    targets.any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_and_a_connection_from_its_port_is_not() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1D09 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0
   1: 0100007F:1D09 0100007F:A000 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0 100 0 0 10 0
";
        assert_eq!(listening_on(table, 7433), ["4711"]);
        assert_eq!(listening_on(table, 7434), Vec::<String>::new());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a listener on loopback, to be found")]
    fn our_own_listener_is_ours() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let holder = holder_of(listener.local_addr().unwrap().port()).unwrap();
        assert!(holder.ends_with(&format!("(process {})", std::process::id())), "{holder}");
    }
}
