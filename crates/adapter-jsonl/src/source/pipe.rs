//! What brings its bytes once: FIFOs, sockets, pipes and other descriptors.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use headcount_contract::DiscontinuityCause;
use rustix::io::Errno;

use super::{Arrived, AtEnd, CHUNK, trouble};
use crate::wake::is_readable;

/// A FIFO, a socket, or a descriptor: bytes that come once.
#[derive(Debug)]
pub(super) struct Pipe {
    descriptor: Option<OwnedFd>,
    /// Where it is opened anew when it has ended.
    reopen: Option<(PathBuf, Opens)>,
    streams: u64,
    /// Whether the present stream was announced.
    began: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opens {
    Fifo,
    Socket,
}

impl Pipe {
    pub(super) fn new(descriptor: Option<OwnedFd>, reopen: Option<(PathBuf, Opens)>) -> Self {
        Self {
            descriptor,
            reopen,
            streams: 0,
            began: false,
        }
    }

    /// What can be waited for, if it is open.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn look(&mut self, buffer: &mut Vec<u8>, at_end: AtEnd) -> Arrived {
        if self.descriptor.is_none() {
            match self.open() {
                None => return Arrived::Finished,
                Some(Err(trouble)) => return Arrived::Trouble(trouble),
                Some(Ok(())) => (),
            }
        }
        let Some(descriptor) = &self.descriptor else {
            return Arrived::Nothing;
        };
        if !is_readable(descriptor.as_fd()) {
            return Arrived::Nothing;
        }
        if !self.began {
            self.began = true;
            self.streams += 1;
            return Arrived::Began {
                stream: self.streams,
                offset: 0,
                line: 1,
                after: (self.streams > 1).then_some(DiscontinuityCause::Reconnected),
            };
        }
        buffer.resize(CHUNK, 0);
        match rustix::io::read(descriptor, &mut *buffer) {
            Ok(read) if read > 0 => {
                buffer.truncate(read);
                Arrived::Bytes {
                    stream: self.streams,
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => Arrived::Nothing,
            // Reset by the peer, hung up: an end like another.
            Ok(_) | Err(_) => {
                self.ended(at_end);
                Arrived::Over {
                    stream: self.streams,
                }
            }
        }
    }

    fn ended(&mut self, at_end: AtEnd) {
        self.began = false;
        if at_end == AtEnd::Finish {
            self.reopen = None;
        }
        match &self.reopen {
            // Before the old descriptor is closed, so that a writer that comes meanwhile finds a
            // reader and loses nothing.
            Some((_, Opens::Fifo)) => {
                if !matches!(self.open(), Some(Ok(()))) {
                    self.descriptor = None;
                }
            }
            _ => self.descriptor = None,
        }
    }

    /// None if it cannot be opened again by its nature.
    fn open(&mut self) -> Option<Result<(), String>> {
        let (path, opens) = self.reopen.as_ref()?;
        let opened = match opens {
            Opens::Fifo => fs::OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
                .open(path)
                .map(OwnedFd::from),
            Opens::Socket => UnixStream::connect(path).map(OwnedFd::from),
        };
        Some(match opened {
            Ok(descriptor) => {
                self.descriptor = Some(descriptor);
                Ok(())
            }
            Err(error) => Err(trouble(path, &error)),
        })
    }
}
