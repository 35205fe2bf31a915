//! Errors of both seams: a kind to act on, one sentence, and ordered context.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// What went wrong in an adapter, as far as a host can act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AdapterErrorKind {
    /// The adapter does not do this; its capabilities say so.
    Unsupported,
    /// A configuration key is missing, unknown or wrong.
    InvalidConfig,
    /// The source cannot be reached now.
    Unavailable,
    /// The source did not answer in time.
    TimedOut,
    /// The source refused.
    Denied,
    /// The source does not know the child.
    UnknownChild,
    /// The source answered with something that is not its protocol.
    Protocol,
    /// The adapter has been closed.
    Closed,
    /// The adapter itself is at fault.
    Internal,
}

impl AdapterErrorKind {
    /// Its name in messages and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unsupported => "unsupported",
            Self::InvalidConfig => "invalid-config",
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed-out",
            Self::Denied => "denied",
            Self::UnknownChild => "unknown-child",
            Self::Protocol => "protocol",
            Self::Closed => "closed",
            Self::Internal => "internal",
        }
    }
}

/// Why [`AgentRuntime::start`](crate::AgentRuntime::start) did not start anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StartErrorKind {
    /// What should be run does not exist.
    NotFound,
    /// What should be run exists and cannot be executed.
    NotExecutable,
    /// The input is wrong, such as a working directory that does not exist.
    InvalidInput,
    /// The system has no more processes, files or memory to give.
    Exhausted,
    /// It was asked to stop before it had started.
    Aborted,
    /// Anything else.
    Other,
}

impl StartErrorKind {
    /// Its name in messages and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not-found",
            Self::NotExecutable => "not-executable",
            Self::InvalidInput => "invalid-input",
            Self::Exhausted => "exhausted",
            Self::Aborted => "aborted",
            Self::Other => "other",
        }
    }
}

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident($kind:ident) example $example:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// `Display` is one line; `Debug` is a block with the context and the causes. Values belong
        /// in the context, never in the message; secrets in neither.
        ///
        /// ```
        #[doc = concat!("use headcount_contract::{", stringify!($name), ", ", stringify!($kind), "};")]
        #[doc = concat!("let error = ", stringify!($name), "::new(", stringify!($kind), "::", stringify!($example), ", \"cannot be had\")")]
        ///     .with_context("path", "/srv/agent");
        /// assert!(error.to_string().ends_with("cannot be had (path: /srv/agent)"));
        /// ```
        pub struct $name {
            kind: $kind,
            message: Cow<'static, str>,
            retryable: bool,
            context: Vec<(&'static str, String)>,
            source: Option<Box<dyn Error + Send + Sync>>,
        }

        impl $name {
            /// An error that trying again would not cure.
            pub fn new(kind: $kind, message: impl Into<Cow<'static, str>>) -> Self {
                Self { kind, message: message.into(), retryable: false, context: Vec::new(), source: None }
            }

            /// The same as one that trying again may cure.
            pub fn retryable(mut self) -> Self {
                self.retryable = true;
                self
            }

            /// The same with one more fact about it.
            pub fn with_context(mut self, key: &'static str, value: impl fmt::Display) -> Self {
                self.context.push((key, value.to_string()));
                self
            }

            /// The same with its cause.
            pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
                self.source = Some(source.into());
                self
            }

            /// What a host can act on.
            pub fn kind(&self) -> $kind {
                self.kind
            }

            /// The sentence alone.
            pub fn message(&self) -> &str {
                &self.message
            }

            /// Whether trying again may cure it.
            pub fn is_retryable(&self) -> bool {
                self.retryable
            }

            /// The facts about it, in the order they were given.
            pub fn context(&self) -> &[(&'static str, String)] {
                &self.context
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}: {}", self.kind.as_str(), self.message)?;
                for (at, (key, value)) in self.context.iter().enumerate() {
                    f.write_str(if at == 0 { " (" } else { ", " })?;
                    write!(f, "{key}: {value}")?;
                }
                if !self.context.is_empty() {
                    f.write_str(")")?;
                }
                Ok(())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let retry = if self.retryable { ", may be tried again" } else { "" };
                write!(f, "{} ({}{retry})", self.message, self.kind.as_str())?;
                for (key, value) in &self.context {
                    write!(f, "\n    {key}: {value}")?;
                }
                let mut cause = self.source();
                while let Some(error) = cause {
                    write!(f, "\n    caused by: {error}")?;
                    cause = error.source();
                }
                Ok(())
            }
        }

        impl Error for $name {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                self.source.as_deref().map(|source| source as _)
            }
        }
    )*};
}

errors! {
    /// What an adapter answers when it cannot do what it was asked.
    AdapterError(AdapterErrorKind) example Unavailable;
    /// Why nothing was started.
    StartError(StartErrorKind) example NotFound;
}

impl AdapterError {
    /// The answer of a method that an adapter does not have.
    ///
    /// ```
    /// use headcount_contract::{AdapterError, AdapterErrorKind};
    /// assert_eq!(AdapterError::unsupported("restart").kind(), AdapterErrorKind::Unsupported);
    /// ```
    pub fn unsupported(what: &'static str) -> Self {
        Self::new(
            AdapterErrorKind::Unsupported,
            "this adapter does not do that",
        )
        .with_context("asked", what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> AdapterError {
        AdapterError::new(
            AdapterErrorKind::Unavailable,
            "the gateway cannot be reached",
        )
        .retryable()
        .with_context("address", "127.0.0.1:8642")
        .with_context("attempts", 3)
        .with_source(std::io::Error::other("connection refused"))
    }

    #[test]
    fn displays_as_one_line() {
        insta::assert_snapshot!(sample(), @"unavailable: the gateway cannot be reached (address: 127.0.0.1:8642, attempts: 3)");
    }

    #[test]
    fn debugs_as_a_block() {
        insta::assert_snapshot!(format!("{:?}", sample()), @r"
        the gateway cannot be reached (unavailable, may be tried again)
            address: 127.0.0.1:8642
            attempts: 3
            caused by: connection refused
        ");
    }
}
