//! Negotiation of the form and the encoding of objects by the Accept header.

use super::form::Form;
use crate::http::Request;
use crate::http::accept::{self, Encoding};
use crate::print::IncludeObject;
use crate::status::StatusError;

/// Form and encoding of objects in the response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Media {
    pub(crate) form: Form,
    pub(crate) encoding: Encoding,
}

impl Media {
    /// The first form and encoding of the Accept header that are served.
    ///
    /// `json_only` is whether whole objects have no encoding in protobuf.
    pub(crate) fn of(request: &Request, json_only: bool, watching: bool) -> Result<Self, StatusError> {
        let suits = |range: &accept::Range<'_>, encoding| {
            if !accept::streams(range, encoding) || range.parameter("sv").is_some_and(|version| version != "v1") {
                return None;
            }
            let form = match range.form() {
                None if json_only && encoding == Encoding::Protobuf => return None,
                None => Form::Whole,
                Some(["meta.k8s.io", "v1" | "v1beta1", "Table"]) if encoding != Encoding::Protobuf => {
                    Form::Table(IncludeObject::Metadata)
                }
                Some(["meta.k8s.io", "v1" | "v1beta1", "PartialObjectMetadata"]) => Form::Metadata,
                Some(["meta.k8s.io", "v1" | "v1beta1", "PartialObjectMetadataList"]) => Form::MetadataList,
                Some(_) => return None,
            };
            Some(Self { form, encoding })
        };
        let mut media = accept::negotiate(request.accept(), suits).ok_or_else(|| not_acceptable(&whole()))?;
        if let Form::Table(included) = &mut media.form {
            *included = match request.query.get("includeObject") {
                None | Some("Metadata") => IncludeObject::Metadata,
                Some("Object") => IncludeObject::Object,
                Some("None") => IncludeObject::Nothing,
                Some(other) => {
                    return Err(StatusError::bad_request(format!(
                        "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
                         'Metadata', 'Object', 'None', or empty"
                    )));
                }
            };
        }
        if watching && media.encoding == Encoding::Yaml {
            return Err(not_acceptable(&streams()));
        }
        Ok(media)
    }

    /// Refuses a request for a built-in kind that names no media type which is served at all.
    pub(crate) fn check_named(request: &Request, listing: bool) -> Result<(), StatusError> {
        let mut types = whole();
        if listing {
            types.extend(streams());
        }
        if accept::names_any(request.accept(), &types) { Ok(()) } else { Err(StatusError::not_producible(&types)) }
    }

    /// Refuses a request for discovery that prefers no encoding of it.
    pub(crate) fn check_plain(request: &Request) -> Result<(), StatusError> {
        Self::check_named(request, false)?;
        accept::encoding(request.accept()).map(drop).ok_or_else(|| not_acceptable(&whole()))
    }
}

/// The media types of answers that have an end.
fn whole() -> Vec<String> {
    Encoding::ALL.iter().map(|encoding| encoding.media_type().to_owned()).collect()
}

/// The media types of watches.
fn streams() -> Vec<String> {
    let streaming = Encoding::ALL.iter().filter(|encoding| **encoding != Encoding::Yaml);
    streaming.map(|encoding| format!("{};stream=watch", encoding.media_type())).collect()
}

fn not_acceptable(types: &[String]) -> StatusError {
    StatusError::not_acceptable(format!("only the following media types are accepted: {}", types.join(", ")))
}
