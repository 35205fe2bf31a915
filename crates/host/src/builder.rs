//! Collects what a host is made of.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use headcount_contract::{
    AdapterSpec, Capabilities, ChildId, ChildLifecycleAdapter, SourceEpoch, SourceId,
    SourceIdentity, SourceRole,
};
use headcount_registry::Registry;

use crate::host::Ingredients;
use crate::session::guarded;
use crate::{
    AdapterInfo, Fleet, Host, HostError, HostSettings, JournalSettings, JournalStore, info,
};

/// Collects what a [`Host`] is made of.
#[derive(Debug, Default)]
pub struct HostBuilder {
    registry: Option<Registry>,
    adapters: Vec<Wanted>,
    journal: Option<Journal>,
    settings: HostSettings,
}

#[derive(Debug)]
enum Wanted {
    Kind {
        kind: String,
        spec: AdapterSpec,
        only_sources: Option<Vec<SourceId>>,
    },
    Value {
        info: AdapterInfo,
        adapter: Arc<dyn ChildLifecycleAdapter>,
    },
}

/// Where a host keeps its events.
#[derive(Debug)]
pub(crate) enum Journal {
    // Without the journal's feature it is refused, whatever it holds.
    #[cfg_attr(not(feature = "jsonl"), allow(dead_code))]
    Path(PathBuf, JournalSettings),
    Store(Box<dyn JournalStore>),
}

impl Journal {
    /// Opens it. Blocks.
    pub(crate) fn open(self) -> Result<Box<dyn JournalStore>, HostError> {
        match self {
            Self::Store(store) => Ok(store),
            #[cfg(feature = "jsonl")]
            Self::Path(path, settings) => {
                match crate::journal::FileJournal::open(path.clone(), &settings) {
                    Ok(journal) => Ok(Box::new(journal)),
                    Err(error) => Err(HostError::Journal {
                        path,
                        message: error.to_string(),
                    }),
                }
            }
            #[cfg(not(feature = "jsonl"))]
            Self::Path(..) => Err(HostError::NoJournal),
        }
    }
}

/// One adapter of a host, ready to run.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) source: SourceId,
    pub(crate) epoch: SourceEpoch,
    pub(crate) info: AdapterInfo,
    /// What it said that it has verified when it was asked first. It must not change (rule C1).
    pub(crate) capabilities: Capabilities,
    pub(crate) adapter: Arc<dyn ChildLifecycleAdapter>,
    /// The children of an earlier life of the host that it observes on, if that is what it is for.
    pub(crate) readopts: Option<HashSet<ChildId>>,
}

impl HostBuilder {
    /// An adapter of this kind, built from its configuration.
    ///
    /// ```
    /// use headcount::Host;
    /// use headcount_contract::AdapterSpec;
    /// let unknown = Host::builder().adapter("gnu", AdapterSpec::new(serde_json::json!({}))).build();
    /// assert!(unknown.unwrap_err().to_string().starts_with("there is no adapter of kind \"gnu\""));
    /// ```
    pub fn adapter(mut self, kind: impl Into<String>, spec: AdapterSpec) -> Self {
        self.adapters.push(Wanted::Kind {
            kind: kind.into(),
            spec,
            only_sources: None,
        });
        self
    }

    /// An adapter that exists already.
    pub fn adapter_value(
        mut self,
        info: AdapterInfo,
        adapter: Arc<dyn ChildLifecycleAdapter>,
    ) -> Self {
        self.adapters.push(Wanted::Value { info, adapter });
        self
    }

    /// Everything that a fleet file names.
    pub fn fleet(mut self, fleet: Fleet) -> Self {
        self.adapters
            .extend(fleet.adapters.into_iter().map(|member| Wanted::Kind {
                kind: member.kind,
                spec: member.spec,
                only_sources: member.only_sources,
            }));
        self
    }

    /// The adapters to choose kinds from; [`registry()`](crate::registry()) by default.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// A journal file: what it holds is replayed at the start, and every accepted event is appended.
    pub fn journal(mut self, path: impl Into<PathBuf>, settings: JournalSettings) -> Self {
        self.journal = Some(Journal::Path(path.into(), settings));
        self
    }

    /// A journal of the host's own.
    pub fn journal_store(mut self, store: impl JournalStore) -> Self {
        self.journal = Some(Journal::Store(Box::new(store)));
        self
    }

    /// How long the host waits, how much it keeps, and what it does first.
    pub fn settings(mut self, settings: HostSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Builds the adapters, which checks their configurations. Does no I/O.
    ///
    /// # Errors
    ///
    /// [`HostError`] if a kind is unknown, a configuration is wrong, or two adapters speak for one
    /// source.
    pub fn build(self) -> Result<Host, HostError> {
        let Self {
            registry,
            adapters,
            journal,
            settings,
        } = self;
        let registry = match registry {
            Some(registry) => registry,
            None => crate::registry()?,
        };
        let mut members = Vec::new();
        let mut names = HashSet::new();
        for (number, wanted) in (1..).zip(adapters) {
            let member = build_one(&registry, number, wanted)?;
            if !names.insert(member.source.clone()) {
                return Err(HostError::DuplicateSource {
                    number,
                    kind: member.info.kind.to_string(),
                    source_id: member.source,
                });
            }
            members.push(member);
        }
        #[cfg(not(feature = "jsonl"))]
        if let Some(Journal::Path(..)) = journal {
            return Err(HostError::NoJournal);
        }
        Ok(Host::new(Ingredients {
            members,
            journal,
            settings,
        }))
    }
}

fn build_one(registry: &Registry, number: usize, wanted: Wanted) -> Result<Member, HostError> {
    let (mut info, adapter) = match wanted {
        Wanted::Value { info, adapter } => (info, adapter),
        Wanted::Kind {
            kind,
            spec,
            only_sources,
        } => {
            let registration = registry.get(&kind)?;
            let adapter = guarded("build", || (registration.build)(spec))
                .map_err(|message| HostError::BuildPanicked {
                    number,
                    kind: kind.clone(),
                    message,
                })?
                .map_err(|error| HostError::Config {
                    number,
                    kind,
                    error,
                })?;
            let mut info = AdapterInfo::from(registration);
            info.only_sources = only_sources;
            (info, adapter)
        }
    };
    let kind = info.kind.to_string();
    let asked = guarded("identity or capabilities", || {
        (adapter.identity(), adapter.capabilities())
    });
    let (identity, capabilities) = asked.map_err(|message| HostError::BuildPanicked {
        number,
        kind,
        message,
    })?;
    if info.role == SourceRole::Own {
        // What its kind cannot do, this one cannot have verified.
        info.at_best = info::both(info.at_best, capabilities);
    }
    let SourceIdentity { source, epoch } = identity;
    Ok(Member {
        source,
        epoch,
        info,
        capabilities,
        adapter,
        readopts: None,
    })
}
