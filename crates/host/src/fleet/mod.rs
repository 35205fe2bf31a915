//! The fleet file: which adapters a host runs, as TOML.

mod blame;
mod error;
mod place;
mod schema;

use std::fmt::Write as _;

use headcount_contract::{AdapterErrorKind, AdapterSpec, SourceId};
use headcount_registry::Registry;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use self::error::FleetError;
use self::place::{Text, to_json};
use crate::session::guarded;

/// The adapters that a fleet file names, each with a configuration that was checked.
///
/// ```toml
/// [[adapter]]
/// kind = "process"
/// source = "build"         # optional: what its children are filed under
/// command = "cargo"        # everything else is the adapter's own
/// args = ["build"]
/// ```
///
/// A carrier of other sources' events, such as `jsonl`, can be held to some of them by
/// `only_sources = ["…"]`.
#[derive(Debug, Clone)]
pub struct Fleet {
    pub(crate) adapters: Vec<FleetAdapter>,
}

/// One adapter of a fleet file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FleetAdapter {
    /// Its kind.
    pub kind: String,
    /// Its source's name and its own keys.
    pub spec: AdapterSpec,
    /// The only sources that it may speak of, if it carries others'.
    pub only_sources: Option<Vec<SourceId>>,
}

/// The keys that belong to the host, not to an adapter.
const HOST_KEYS: [&str; 3] = ["kind", "source", "only_sources"];

impl Fleet {
    /// Reads a fleet file and checks it against the adapters of this program.
    ///
    /// # Errors
    ///
    /// [`FleetError`] says what is wrong, in which line and column, and what would be right.
    ///
    /// ```
    /// use headcount::Fleet;
    /// let error = Fleet::parse("[[adapter]]\nkin = \"process\"\n").unwrap_err();
    /// assert_eq!((error.line, error.column), (1, 1));
    /// assert!(error.to_string().contains("every adapter needs a `kind`"));
    /// ```
    pub fn parse(text: &str) -> Result<Self, FleetError> {
        let registry =
            crate::registry().map_err(|error| Text(text).error(0..0, None, error.to_string()))?;
        Self::parse_with(text, &registry)
    }

    /// Reads a fleet file and checks it against other adapters.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn parse_with(text: &str, registry: &Registry) -> Result<Self, FleetError> {
        let file = Text(text);
        let table = DeTable::parse(text).map_err(|error| {
            file.error(
                error.span().unwrap_or(0..0),
                None,
                error.message().to_owned(),
            )
        })?;
        let mut adapters = Vec::new();
        for (key, value) in table.get_ref() {
            let name = key.get_ref();
            if name != "adapter" {
                let said =
                    format!("there is no key `{name}` here; a fleet file has `[[adapter]]` tables");
                return Err(file.error(key.span(), Some(name), said));
            }
            let DeValue::Array(tables) = value.get_ref() else {
                let said = "`adapter` is a list of tables: write `[[adapter]]`".to_owned();
                return Err(file.error(value.span(), Some(name), said));
            };
            for table in tables {
                adapters.push(read_adapter(&file, table, registry)?);
            }
        }
        if adapters.is_empty() {
            let said =
                "a fleet file names at least one adapter: `[[adapter]]`, and its `kind`".to_owned();
            return Err(file.error(0..0, None, said));
        }
        Ok(Self { adapters })
    }

    /// The adapters, in the order of the file.
    pub fn adapters(&self) -> &[FleetAdapter] {
        &self.adapters
    }

    /// The JSON Schema of a fleet file for these adapters.
    ///
    /// ```
    /// let schema = headcount::Fleet::schema(&headcount::registry()?);
    /// assert_eq!(schema["title"], "Fleet");
    /// # Ok::<(), headcount::RegistryError>(())
    /// ```
    pub fn schema(registry: &Registry) -> Value {
        schema::of(registry)
    }
}

/// Reads one `[[adapter]]`, and has its configuration checked by the adapter itself.
fn read_adapter(
    file: &Text<'_>,
    table: &Spanned<DeValue<'_>>,
    registry: &Registry,
) -> Result<FleetAdapter, FleetError> {
    let DeValue::Table(keys) = table.get_ref() else {
        let said = format!(
            "an adapter is a table, not {}",
            place::named(table.get_ref())
        );
        return Err(file.error(table.span(), Some("adapter"), said));
    };
    let Some(kind) = keys.get("kind") else {
        let known: Vec<_> = registry.iter().map(|adapter| adapter.kind).collect();
        let said = format!("every adapter needs a `kind`, one of: {}", known.join(", "));
        return Err(file.error(file.header(table.span()), Some("kind"), said));
    };
    let text = |value: &Spanned<DeValue<'_>>, key: &str| match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        other => {
            let said = format!("`{key}` is a text, not {}", place::named(other));
            Err(file.error(value.span(), Some(key), said))
        }
    };
    let source_id = |value: &Spanned<DeValue<'_>>, key: &str| {
        SourceId::new(text(value, key)?)
            .map_err(|error| file.error(value.span(), Some(key), error.to_string()))
    };
    let kind_name = text(kind, "kind")?;
    let registration = registry
        .get(&kind_name)
        .map_err(|error| file.error(kind.span(), Some("kind"), error.to_string()))?;
    let source = keys
        .get("source")
        .map(|value| source_id(value, "source"))
        .transpose()?;
    let only_sources = match keys.get("only_sources") {
        None => None,
        Some(value) => {
            if registration.role == headcount_contract::SourceRole::Own {
                let said = format!(
                    "`{kind_name}` is a source itself; `only_sources` is for adapters that carry others' events"
                );
                return Err(file.error(value.span(), Some("only_sources"), said));
            }
            let DeValue::Array(names) = value.get_ref() else {
                let said = format!(
                    "`only_sources` is a list of texts, not {}",
                    place::named(value.get_ref())
                );
                return Err(file.error(value.span(), Some("only_sources"), said));
            };
            Some(
                names
                    .iter()
                    .map(|name| source_id(name, "only_sources"))
                    .collect::<Result<Vec<_>, _>>()?,
            )
        }
    };
    let mut config = serde_json::Map::new();
    for (key, value) in keys
        .iter()
        .filter(|(key, _)| !HOST_KEYS.contains(&key.get_ref().as_ref()))
    {
        let json =
            to_json(value).map_err(|(span, said)| file.error(span, Some(key.get_ref()), said))?;
        config.insert(key.get_ref().to_string(), json);
    }
    let mut spec = AdapterSpec::new(Value::Object(config));
    spec.source = source;
    let error = match guarded("build", || (registration.build)(spec.clone())) {
        Ok(Ok(_)) => {
            return Ok(FleetAdapter {
                kind: kind_name,
                spec,
                only_sources,
            });
        }
        Ok(Err(error)) => error,
        Err(panic) => return Err(file.error(file.header(table.span()), None, panic)),
    };
    let context = error.context().iter();
    let told = context.clone().find(|(name, _)| *name == "key");
    let told = told.map(|(_, key)| key.clone());
    let found = blame::key(registration, &spec, &error.to_string());
    let key = match (told, found) {
        // An adapter may name no more than the outermost key; what lies within it is found.
        (Some(told), Some(found)) if !found.starts_with(&format!("{told}.")) => Some(told),
        (told, found) => found.or(told),
    };
    let mut said = error.message().to_owned();
    for (name, value) in context.filter(|(name, _)| *name != "key") {
        // Writing to a string cannot fail.
        let _ = write!(said, "; {name}: {value}");
    }
    if error.kind() != AdapterErrorKind::InvalidConfig {
        said = format!("{}: {said}", error.kind().as_str());
    }
    let span = key.as_deref().and_then(|key| place::of_key(keys, key));
    let span = span.unwrap_or_else(|| file.header(table.span()));
    Err(file.error(span, key.as_deref(), said))
}
