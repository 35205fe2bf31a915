//! Waiting for descriptors, a time, or somebody who calls.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};

/// Ends somebody's wait, from any thread: a pipe, as each Unix has it.
#[derive(Debug, Clone)]
pub(crate) struct Wake {
    ends: Arc<(PipeReader, PipeWriter)>,
}

impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        let ends = io::pipe()?;
        ioctl_fionbio(&ends.0, true)?;
        ioctl_fionbio(&ends.1, true)?;
        Ok(Self {
            ends: Arc::new(ends),
        })
    }

    /// Ends the wait under way, or the next one.
    pub(crate) fn wake(&self) {
        // It can only be full, and then the wait ends all the same.
        let _ = (&self.ends.1).write(&[1]);
    }

    /// Waits until one of the descriptors is readable or hung up, somebody wakes, or the time is
    /// over.
    pub(crate) fn wait<'a>(
        &'a self,
        descriptors: impl IntoIterator<Item = BorrowedFd<'a>>,
        at_most: Duration,
    ) {
        let mut all = vec![PollFd::from_borrowed_fd(self.ends.0.as_fd(), PollFlags::IN)];
        all.extend(
            descriptors
                .into_iter()
                .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)),
        );
        let timeout = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        // An interrupted wait is a short one.
        let _ = poll(&mut all, Some(&timeout));
        // Many calls are one. What is left of very many ends the next wait, which then is a short one.
        let _ = (&self.ends.0).read(&mut [0; 512]);
    }
}

/// Whether a read would not block.
pub(crate) fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let mut all = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    loop {
        match poll(
            &mut all,
            Some(&Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            }),
        ) {
            Err(Errno::INTR) => (),
            Ok(ready) => return ready > 0,
            Err(_) => return false,
        }
    }
}

/// Runs a future on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_wake_before_the_wait_is_not_lost() {
        let wake = Wake::new().unwrap();
        wake.wake();
        let start = Instant::now();
        wake.wait([], Duration::from_mins(1));
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_wake_ends_the_wait_of_another_thread() {
        let wake = Wake::new().unwrap();
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| wake.wait([], Duration::from_mins(1)));
            wake.wake();
        });
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn block_on_waits_for_another_thread() {
        let (send, receive) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || send.send(7).unwrap());
        assert_eq!(block_on(receive), Ok(7));
        thread.join().unwrap();
    }
}
