//! Documents of a chart: values that are expressions of Helm's templates.

use serde_json::Value;

/// Marks of an expression, and of a field that may be absent. No document has them
/// otherwise.
const BEGIN: char = '\u{1}';
const END: char = '\u{2}';
const OPTIONAL: char = '\u{3}';

/// A value that the chart computes, such as `.Values.image | quote`. Within a longer
/// string it must not need quotes.
pub(crate) fn expression(expression: &str) -> Value {
    inline(expression).into()
}

/// An expression as a part of a string.
pub(crate) fn inline(expression: &str) -> String {
    format!("{BEGIN}{expression}{END}")
}

/// A field that exists if a condition holds.
pub(super) fn optional(condition: &str, value: &Value) -> Value {
    format!("{OPTIONAL}{condition}{END}{value}").into()
}

/// A document as the text of a template.
pub(crate) fn render(document: &Value) -> Result<String, serde_saphyr::ser::Error> {
    let mut marks = Placeholders::default();
    let marked = marks.replace(document.clone());
    let text = escaped(&serde_saphyr::to_string(&marked)?);
    Ok(text.lines().map(|line| marks.line(line) + "\n").collect())
}

/// Keeps braces of documents from being read as expressions.
pub(crate) fn escaped(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}

/// The placeholders in a document, which are names, and the expressions that replace
/// them.
#[derive(Default)]
struct Placeholders(Vec<Placeholder>);

struct Placeholder {
    name: String,
    /// The condition, if it is a field that may be absent.
    condition: Option<String>,
    /// `true` if the expression is a whole value, whose quotes are removed, and not part
    /// of a string.
    is_value: bool,
    text: String,
}

impl Placeholders {
    /// Replaces expressions by names that are the same in every notation.
    fn replace(&mut self, value: Value) -> Value {
        match value {
            Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, self.replace(value))).collect(),
            Value::Array(items) => items.into_iter().map(|item| self.replace(item)).collect(),
            Value::String(text) => self.named(&text).into(),
            other => other,
        }
    }

    fn named(&mut self, text: &str) -> String {
        if let Some((condition, value)) = text.strip_prefix(OPTIONAL).and_then(|rest| rest.split_once(END)) {
            let value = serde_json::from_str(value).unwrap_or_default();
            let value = self.replace(value);
            let text = self.inlined(&escaped(&value.to_string()));
            return self.add(Some(condition.to_owned()), true, text);
        }
        let mut named = String::new();
        let mut rest = text;
        while let Some((before, marked)) = rest.split_once(BEGIN) {
            let (expression, after) = marked.split_once(END).unwrap_or((marked, ""));
            let is_value = named.is_empty() && before.is_empty() && after.is_empty();
            named += before;
            named += &self.add(None, is_value, format!("{{{{ {expression} }}}}"));
            rest = after;
        }
        named + rest
    }

    fn add(&mut self, condition: Option<String>, is_value: bool, text: String) -> String {
        let name = format!("KooperExpression{}End", self.0.len());
        self.0.push(Placeholder { name: name.clone(), condition, is_value, text });
        name
    }

    /// Replaces the names with their expressions.
    fn inlined(&self, line: &str) -> String {
        let text = |line: String, placeholder: &Placeholder| {
            let line = match placeholder.is_value {
                true => line.replace(&format!("\"{}\"", placeholder.name), &placeholder.text),
                false => line,
            };
            line.replace(&placeholder.name, &placeholder.text)
        };
        self.0.iter().fold(line.to_owned(), text)
    }

    fn line(&self, line: &str) -> String {
        let optional = self.0.iter().filter(|placeholder| line.contains(&placeholder.name));
        match optional.filter_map(|placeholder| placeholder.condition.as_ref()).next() {
            Some(condition) => format!("{{{{- if {condition} }}}}\n{}\n{{{{- end }}}}", self.inlined(line)),
            None => self.inlined(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_and_optional_fields_become_templates() {
        let document = json!({
            "image": expression(".Values.image | quote"),
            "name": format!("shop-{}", inline(".Values.instance")),
            "ports": optional(".Values.listen", &json!([{"port": expression("$port"), "text": "a {{ b"}])),
            "text": "{{ not an expression }}",
        });
        let expected = r#"image: {{ .Values.image | quote }}
name: shop-{{ .Values.instance }}
{{- if .Values.listen }}
ports: [{"port":{{ $port }},"text":"a {{ "{{" }} b"}]
{{- end }}
"#;
        let text = render(&document).expect("YAML");
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains(r#"{{ "{{" }} not an expression }}"#), "{text}");

        let query = json!({"query": format!("up{{job=\"{}\"}}", inline(".Values.job"))});
        // In some notations of YAML, quotes within a string are escaped.
        let text = render(&query).expect("YAML").replace('\\', "");
        assert!(text.contains(r#"job="{{ .Values.job }}""#), "the quotes of a longer string stay: {text}");
    }
}
