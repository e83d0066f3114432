"""The part of JSON Schema (draft 2020-12) that docs/schemas/ uses. An unknown keyword is an error, not ignored."""
import json
import math
import pathlib

TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value),
    "integer": lambda value: TYPES["number"](value) and value == int(value),
}
ANNOTATIONS = {"$schema", "$defs", "title", "description", "default"}


class Schemas:
    """The schema files of a folder, which refer to each other by file name."""

    def __init__(self, folder):
        self.files = {path.name: json.loads(path.read_text()) for path in sorted(pathlib.Path(folder).glob("*.json"))}

    def errors(self, name, value):
        """What is wrong with `value` as an instance of the schema file `name`, a line for each fault."""
        return self._check(self.files[name], name, value, "$")[0]

    def _resolve(self, reference, name):
        file, _, pointer = reference.partition("#")
        target = self.files[file or name]
        for key in pointer.strip("/").split("/") if pointer.strip("/") else []:
            target = target[key]
        return target, file or name

    def _check(self, schema, name, value, path):
        """The faults, and the names of the properties that the schema describes."""
        if schema is True or schema is False:
            return ([] if schema else [f"{path} must not be there"]), set()
        faults, known = [], set()

        def add(result, keep=True):
            faults.extend(result[0])
            known.update(result[1] if keep else ())

        for keyword, rule in schema.items():
            check = getattr(self, "_" + keyword.lstrip("$"), None)
            if keyword in ANNOTATIONS or keyword in ("additionalProperties", "unevaluatedProperties"):
                continue
            if check is None:
                raise ValueError(f"{name}: the keyword {keyword} is not supported; write it in tests/scripts/json_schema.py")
            add(check(rule, schema, name, value, path))
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            if keyword in schema and isinstance(value, dict):
                seen = set(schema.get("properties", {})) if keyword == "additionalProperties" else known
                for key in value.keys() - seen:
                    if schema[keyword] is False:
                        faults.append(f"{path}.{key} is not in the schema")
                    else:
                        add(self._check(schema[keyword], name, value[key], f"{path}.{key}"), keep=False)
                    known.add(key)
        return faults, known

    def _ref(self, rule, _schema, name, value, path):
        target, file = self._resolve(rule, name)
        return self._check(target, file, value, path)

    def _type(self, rule, _schema, _name, value, path):
        names = [rule] if isinstance(rule, str) else rule
        return ([] if any(TYPES[each](value) for each in names) else [f"{path} is {value!r}, no {rule}"]), set()

    def _const(self, rule, _schema, _name, value, path):
        return ([] if value == rule and type(value) is type(rule) else [f"{path} is {value!r}, not {rule!r}"]), set()

    def _enum(self, rule, _schema, _name, value, path):
        return ([] if value in rule else [f"{path} is {value!r}, none of {rule}"]), set()

    def _minimum(self, rule, _schema, _name, value, path):
        return ([f"{path} is {value}, below {rule}"] if TYPES["number"](value) and value < rule else []), set()

    def _maximum(self, rule, _schema, _name, value, path):
        return ([f"{path} is {value}, above {rule}"] if TYPES["number"](value) and value > rule else []), set()

    def _minItems(self, rule, _schema, _name, value, path):
        return ([f"{path} has fewer than {rule} items"] if isinstance(value, list) and len(value) < rule else []), set()

    def _maxItems(self, rule, _schema, _name, value, path):
        return ([f"{path} has more than {rule} items"] if isinstance(value, list) and len(value) > rule else []), set()

    def _minLength(self, rule, _schema, _name, value, path):
        return ([f"{path} has fewer than {rule} characters"] if isinstance(value, str) and len(value) < rule else []), set()

    def _items(self, rule, _schema, name, value, path):
        faults = []
        for index, each in enumerate(value if isinstance(value, list) else []):
            faults += self._check(rule, name, each, f"{path}[{index}]")[0]
        return faults, set()

    def _prefixItems(self, rule, _schema, name, value, path):
        faults = []
        for index, (schema, each) in enumerate(zip(rule, value if isinstance(value, list) else [])):
            faults += self._check(schema, name, each, f"{path}[{index}]")[0]
        return faults, set()

    def _properties(self, rule, _schema, name, value, path):
        faults = []
        for key in rule.keys() & (value.keys() if isinstance(value, dict) else set()):
            faults += self._check(rule[key], name, value[key], f"{path}.{key}")[0]
        return faults, set(rule)

    def _required(self, rule, _schema, _name, value, path):
        missing = [key for key in rule if isinstance(value, dict) and key not in value]
        return [f"{path}.{key} is missing" for key in missing], set()

    def _dependentRequired(self, rule, _schema, name, value, path):
        faults = []
        for key, others in rule.items():
            if isinstance(value, dict) and key in value:
                faults += self._required(others, None, name, value, path)[0]
        return faults, set()

    def _anyOf(self, rule, _schema, name, value, path):
        results = [self._check(each, name, value, path) for each in rule]
        fitting = [known for faults, known in results if not faults]
        if fitting:
            return [], set().union(*fitting)
        return min((faults for faults, _ in results), key=len), set()
