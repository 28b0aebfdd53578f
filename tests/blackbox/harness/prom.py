# SPDX-License-Identifier: Apache-2.0
"""A strict parser of the Prometheus text format 0.0.4. It refuses what a lenient scraper would forgive:
samples before their TYPE, families in two places, duplicate series, counters without _total, histograms whose
buckets fall or whose +Inf bucket differs from the count."""
import re

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(rf"^({_NAME})(?:\{{(.*)\}})? (\S+)(?: (-?\d+))?$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)')
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


class BadMetrics(AssertionError):
    pass


def _value(text):
    if text in ("+Inf", "Inf", "-Inf", "NaN"):
        return float(text.replace("Inf", "inf"))
    if not re.fullmatch(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", text):
        raise BadMetrics(f"bad value {text!r}")
    return float(text)


def _labels(text):
    labels, position = {}, 0
    while position < len(text):
        found = _LABEL.match(text, position)
        if not found:
            raise BadMetrics(f"bad labels {text!r} at {position}")
        if found[1] in labels:
            raise BadMetrics(f"label {found[1]} twice in {text!r}")
        labels[found[1]] = found[2].replace(r"\"", '"').replace(r"\n", "\n").replace("\\\\", "\\")
        position = found.end()
    return labels


class Metrics:
    """families: name -> (type, help, [(sample name, labels, value)])."""

    def __init__(self, text):
        if not text.endswith("\n"):
            raise BadMetrics("the last line has no newline")
        self.families, seen, current, helps = {}, set(), None, {}
        for number, line in enumerate(text.split("\n")[:-1], 1):
            try:
                current = self._line(line, current, helps, seen)
            except BadMetrics as e:
                raise BadMetrics(f"line {number}: {e}: {line!r}") from None
        for name, (kind, _, samples) in self.families.items():
            if kind == "histogram":
                self._check_histogram(name, samples)

    def _line(self, line, current, helps, seen):
        if not line:
            return current
        if line.startswith("# HELP "):
            name, _, text = line[7:].partition(" ")
            if name in helps or not text:
                raise BadMetrics("second or empty HELP")
            helps[name] = text
            return current
        if line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            if name in self.families:
                raise BadMetrics("second TYPE, or family in two places")
            if kind not in ("counter", "gauge", "histogram", "summary", "untyped"):
                raise BadMetrics("unknown type")
            if not re.fullmatch(_NAME, name):
                raise BadMetrics("bad name")
            if name not in helps:
                raise BadMetrics("no HELP before TYPE")
            if kind == "counter" and not name.endswith("_total"):
                raise BadMetrics("a counter's name ends in _total")
            self.families[name] = (kind, helps[name], [])
            return name
        if line.startswith("#"):
            return current
        found = _SAMPLE.match(line)
        if not found:
            raise BadMetrics("bad sample")
        if current is None:
            raise BadMetrics("sample before TYPE")
        kind = self.families[current][0]
        if found[1] not in [current + s for s in _SUFFIXES.get(kind, ("",))]:
            raise BadMetrics(f"sample outside of its family {current}")
        labels = _labels(found[2] or "")
        key = (found[1], tuple(sorted(labels.items())))
        if key in seen:
            raise BadMetrics("series twice")
        seen.add(key)
        value = _value(found[3])
        if kind in ("counter", "histogram") and value < 0:
            raise BadMetrics("negative counter")
        self.families[current][2].append((found[1], labels, value))
        return current

    @staticmethod
    def _check_histogram(name, samples):
        groups = {}
        for sample, labels, value in samples:
            rest = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
            group = groups.setdefault(rest, {"buckets": []})
            if sample.endswith("_bucket"):
                group["buckets"].append((_value(labels["le"]), value))
            else:
                group[sample[len(name):]] = value
        for rest, group in groups.items():
            buckets = group["buckets"]
            if [b for b, _ in buckets] != sorted({b for b, _ in buckets}):
                raise BadMetrics(f"{name}{rest}: bounds not rising")
            if [v for _, v in buckets] != sorted(v for _, v in buckets):
                raise BadMetrics(f"{name}{rest}: buckets not cumulative")
            if not buckets or buckets[-1][0] != float("inf"):
                raise BadMetrics(f"{name}{rest}: no +Inf bucket")
            if buckets[-1][1] != group.get("_count") or "_sum" not in group:
                raise BadMetrics(f"{name}{rest}: +Inf bucket, count and sum do not agree")

    def sum(self, name, **labels):
        """Sum of a family's plain samples whose labels contain the given ones."""
        if name not in self.families:
            raise BadMetrics(f"no family {name}; there are {sorted(self.families)}")
        return sum(v for n, l, v in self.families[name][2]
                   if n == name and all(l.get(k) == x for k, x in labels.items()))

    def by(self, name, label):
        """Sums of a family by the values of one label."""
        out = {}
        for _, labels, value in self.families[name][2]:
            out[labels.get(label)] = out.get(labels.get(label), 0) + value
        return out
