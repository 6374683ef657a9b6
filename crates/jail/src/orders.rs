//! What the launcher and the init say to each other over their socket.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::control::{Control, Controls, Enforcement};
use crate::entry::Guarded;
use crate::plan::wire_path;
use crate::plan::{Access, HomeFile, Network};
use crate::seal::SealedFile;
use crate::sys::Used;

/// The longest message: a survey of a large tree makes long lists.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;
/// One for each directory of a plan, and a few more.
const MAX_DESCRIPTORS: usize = 80;

/// What the init needs to know for stage two. Descriptors for `Source::Sent` travel beside it, in order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// What is to be done in the place that the rest is about. If this is nothing it comes later: the init goes behind its walls,
    /// says so, and waits.
    pub(crate) command: Option<OrderedCommand>,
    #[serde(with = "wire_path")]
    pub(crate) working_directory: PathBuf,
    pub(crate) directories: Vec<OrderedDirectory>,
    /// Files to be mounted over. Their content is the last descriptor, if there are any.
    pub(crate) sealed: Vec<SealedFile>,
    pub(crate) network: Network,
    pub(crate) rlimits: Rlimits,
    /// The first descriptor is the door of one more cgroup to enter.
    pub(crate) enters_cgroup: bool,
    /// It may have been put on the launcher's processor for a moment, and goes wherever it might before.
    pub(crate) takes_our_place: bool,
    /// Outputs are collected: the init holds them open until it has said that the tool ended, so that the launcher is
    /// woken once and not for each of them.
    pub(crate) holds_outputs: bool,
    pub(crate) scratch_bytes: u64,
    /// Rows and columns of the terminal to make, if there is to be one.
    pub(crate) terminal: Option<(u16, u16)>,
    pub(crate) without: Controls,
}

impl Orders {
    pub(crate) fn keeps(&self, control: Control) -> bool {
        !self.without.contains(control)
    }

    /// Where a program of the host comes from, if that is to be executed.
    pub(crate) fn brought(&self) -> Option<&Source> {
        match &self.command.as_ref()?.program {
            OrderedProgram::Brought(source) => Some(source),
            OrderedProgram::Inside(_) | OrderedProgram::WhenTold(_) | OrderedProgram::Own => None,
        }
    }
}

/// What the tool is, and all that is for it alone.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OrderedCommand {
    pub(crate) program: OrderedProgram,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Files that the program finds in its home.
    pub(crate) home: Vec<HomeFile>,
}

/// What to execute.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum OrderedProgram {
    /// A path or name inside.
    Inside(OsString),
    /// The same, when a word has come on the standard input.
    WhenTold(OsString),
    /// A host file to be mounted first.
    Brought(Source),
    /// Our own code, which is there already.
    Own,
}

/// A directory to mount, with what the survey found in it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OrderedDirectory {
    #[serde(with = "wire_path")]
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
    pub(crate) source: Source,
    /// Device and inode that were surveyed; another one is refused.
    pub(crate) identity: (u64, u64),
    pub(crate) covered: Vec<Guarded>,
    /// Directories on the way to another grant, which must stay where they are.
    pub(crate) between: Vec<Guarded>,
    pub(crate) pinned: Vec<Guarded>,
    pub(crate) protected: Vec<Guarded>,
}

/// Where a mount comes from.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Source {
    /// The next descriptor is a detached mount, made by a launcher that may.
    Sent,
    /// The init copies it from its own view of the host.
    Copy(#[serde(with = "wire_path")] PathBuf),
}

/// Limits of each process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Rlimits {
    pub(crate) pids: Option<u64>,
    pub(crate) file_bytes: Option<u64>,
    pub(crate) open_files: u64,
}

/// When the orders come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Manner {
    /// As soon as the launcher has them.
    AtOnce,
    /// At some time, or never: the init says when it is ready for them.
    Waiting,
}

/// What the init says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    /// Stage one is built. Its namespaces travel beside this: whoever holds them decides when they are taken down.
    Ready,
    /// Every wall stands, and the command may come.
    InPlace,
    /// The network is guarded. What leads out of it travels beside this; see [`crate::doors::Doors`].
    Guarded,
    /// The tool runs. A descriptor for it travels beside this, and one for the terminal if there is one.
    Started(Enforcement),
    /// The command is not there, or cannot be executed (the system's error number).
    NotStarted(NotStarted),
    /// A wall could not be raised; nothing was executed.
    Failed { step: Step, error: i32 },
    /// The tool ended, with this wait status; and if no process is left but the init, what all have used.
    Ended { status: i32, used: Option<Used> },
}

/// Why a command did not start although every wall stands.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum NotStarted {
    NotFound,
    CannotExecute(i32),
}

/// Where the building of a sandbox stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Creating the user and process namespaces.
    Clone,
    /// Writing the id maps.
    IdMap,
    /// Listing the host's mounts.
    Mounts,
    /// Creating the other namespaces.
    Namespaces,
    /// Taking the sandbox's identity.
    Identity,
    /// Bringing up loopback.
    Loopback,
    /// Leading every address to whoever guards the network.
    Network,
    /// Setting the host name.
    Hostname,
    /// Making the new root.
    Root,
    /// Showing a part of the system.
    System(#[serde(with = "wire_path")] PathBuf),
    /// Mounting `/proc`.
    Proc,
    /// Making `/dev`.
    Devices,
    /// Making scratch space.
    Scratch,
    /// Mounting a granted directory.
    Directory(#[serde(with = "wire_path")] PathBuf),
    /// A granted directory was replaced while the sandbox was built.
    Replaced(#[serde(with = "wire_path")] PathBuf),
    /// Hiding or protecting a name.
    Name(#[serde(with = "wire_path")] PathBuf),
    /// Bringing in the program.
    Program,
    /// Copying the content of sealed files.
    Seal,
    /// Mounting the copy of a sealed file: what it stands for is gone, or is no file any more.
    Sealed(#[serde(with = "wire_path")] PathBuf),
    /// Leaving the host's root.
    Pivot,
    /// Entering the working directory.
    WorkingDirectory(#[serde(with = "wire_path")] PathBuf),
    /// Making a terminal.
    Terminal,
    /// Setting process limits.
    Rlimits,
    /// Making or joining a cgroup.
    Cgroup,
    /// Dropping capabilities.
    Privileges,
    /// Raising Landlock.
    Landlock,
    /// Installing the system call filter.
    Seccomp,
    /// Talking to the init.
    Channel,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Clone => f.write_str("create user and process namespaces"),
            Step::IdMap => f.write_str("write the id maps"),
            Step::Mounts => f.write_str("list the host's mounts"),
            Step::Namespaces => f.write_str("create mount, network, ipc and uts namespaces"),
            Step::Identity => f.write_str("take the sandbox's identity"),
            Step::Loopback => f.write_str("bring up loopback"),
            Step::Network => f.write_str("guard the network"),
            Step::Hostname => f.write_str("set the host name"),
            Step::Root => f.write_str("make the new root"),
            Step::System(path) => write!(f, "show `{}`", path.display()),
            Step::Proc => f.write_str("mount a private /proc"),
            Step::Devices => f.write_str("make a private /dev"),
            Step::Scratch => f.write_str("make scratch space"),
            Step::Directory(path) => write!(f, "mount `{}`", path.display()),
            Step::Replaced(path) => write!(f, "mount `{}`, which was replaced meanwhile", path.display()),
            Step::Name(path) => write!(f, "guard `{}`", path.display()),
            Step::Program => f.write_str("bring in the program"),
            Step::Seal => f.write_str("copy the sealed files"),
            Step::Sealed(path) => write!(f, "show `{}` as it was sealed", path.display()),
            Step::Pivot => f.write_str("leave the host's root"),
            Step::WorkingDirectory(path) => write!(f, "enter the working directory `{}`", path.display()),
            Step::Terminal => f.write_str("make a terminal"),
            Step::Rlimits => f.write_str("set process limits"),
            Step::Cgroup => f.write_str("make a cgroup"),
            Step::Privileges => f.write_str("drop capabilities"),
            Step::Landlock => f.write_str("raise landlock"),
            Step::Seccomp => f.write_str("install the system call filter"),
            Step::Channel => f.write_str("talk to the sandbox's init"),
        }
    }
}

/// Sends one message and the descriptors that belong to it.
pub(crate) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let body = postcard::to_stdvec(message).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let length = u32::try_from(body.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    send_with(socket, &[length.to_le_bytes().as_slice(), &body].concat(), descriptors)
}

/// Sends bytes, and descriptors with the first of them.
pub(crate) fn send_with(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let sent =
        retry_on_intr(|| sendmsg(&socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL))?;
    let mut rest = bytes.get(sent..).unwrap_or_default();
    while !rest.is_empty() {
        let sent = retry_on_intr(|| rustix::net::send(&socket, rest, SendFlags::NOSIGNAL))?;
        rest = rest.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// Waits until the other side has said something, or is gone. Whoever waits by reading is woken when the other side reads, too:
/// then there is room to say more.
pub(crate) fn wait_for_word(socket: impl AsFd) -> io::Result<()> {
    wait_for_word_within(socket, None)
}

/// The same, for as long as this: `TimedOut` then.
pub(crate) fn wait_for_word_within(socket: impl AsFd, most: Option<Duration>) -> io::Result<()> {
    let most = most.and_then(|most| Timespec::try_from(most).ok());
    match retry_on_intr(|| poll(&mut [PollFd::new(&socket, PollFlags::IN)], most.as_ref()))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// Receives one message and its descriptors. `UnexpectedEof` when the other side is gone.
pub(crate) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<(T, Vec<OwnedFd>)> {
    let mut header = [0; 4];
    let descriptors = receive_with(&socket, &mut header)?;
    let length = usize::try_from(u32::from_le_bytes(header)).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let mut body = vec![0; length];
    let mut filled = 0;
    while let Some(rest) = body.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match retry_on_intr(|| rustix::io::read(&socket, &mut *rest))? {
            0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            got => filled += got,
        }
    }
    let message = postcard::from_bytes(&body).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((message, descriptors))
}

/// Fills a header, and takes the descriptors that come with it. `UnexpectedEof` when the other side is gone.
pub(crate) fn receive_with(socket: impl AsFd, header: &mut [u8]) -> io::Result<Vec<OwnedFd>> {
    let mut descriptors = Vec::new();
    let mut filled = 0;
    while let Some(rest) = header.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        // A socket with a time limit tells of each interruption.
        let got = retry_on_intr(|| {
            recvmsg(&socket, &mut [IoSliceMut::new(rest)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        if got.bytes == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        filled += got.bytes;
    }
    Ok(descriptors)
}
