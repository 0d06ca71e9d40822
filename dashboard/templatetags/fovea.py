"""How numbers, sizes and times are written on the pages."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

NOTHING = "\N{EN DASH}"


@register.simple_tag
def icon(name: str) -> SafeString:
    """A drawing of ``static/icons.svg``; decoration, so words must stand beside it."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>', static("icons.svg"), name)


@register.filter
def size(n_bytes: float | None) -> str:
    """``1536`` -> ``1.5 KiB``."""
    if not n_bytes:
        return NOTHING
    amount = float(n_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


@register.filter
def short_count(n: float | None) -> str:
    """``11689512`` -> ``11.7 M``."""
    if not n:
        return NOTHING
    amount = float(n)
    for unit in ("", "k", "M"):
        if amount < 1000:
            return f"{amount:.3g} {unit}".strip()
        amount /= 1000
    return f"{amount:.3g} G"


@register.filter
def flops(n: float | None) -> str:
    """``3628146688`` -> ``3.63 GFLOPs``."""
    return f"{short_count(n)}FLOPs" if n and n >= 1000 else f"{n or NOTHING} FLOPs"


@register.filter
def grouped(n: int | str | None) -> str:
    """``1797`` -> ``1,797``."""
    return NOTHING if n in (None, "") else f"{n:,}"


@register.filter
def duration(seconds: float | None) -> str:
    """``3725`` -> ``1h 02m``."""
    if seconds is None:
        return NOTHING
    whole = int(seconds)
    days, hours, minutes = whole // 86_400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes:02d}m"
    if minutes:
        return f"{minutes}m {whole % 60:02d}s"
    return f"{whole}s" if whole or not seconds else "< 1s"


@register.filter
def eta(seconds: float) -> str:
    """A time to come, as exactly as it is known: ``4m``, ``1.5h``."""
    if seconds < 60:
        return f"{max(1, round(seconds))}s"
    return f"{round(seconds / 60)}m" if seconds < 5400 else f"{seconds / 3600:.1f}h"


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """A ``<time>`` that says how long ago; ``main.js`` keeps it true."""
    if moment is None:
        return NOTHING
    return format_html(
        '<time datetime="{}" title="{}" data-ago>{}</time>',
        moment.isoformat(),
        moment.strftime("%Y-%m-%d %H:%M UTC"),
        _since((timezone.now() - moment).total_seconds()),
    )


_AGES = ((60, 0, "just now"), (3600, 60, "m"), (86_400, 3600, "h"), (86_400 * 60, 86_400, "d"))


def _since(seconds: float) -> str:
    for limit, unit_s, name in (
        (60, 0, "just now"),
        (3600, 60, "m"),
        (86_400, 3600, "h"),
        (86_400 * 60, 86_400, "d"),
    ):
        if seconds < limit:
            return f"{int(seconds // unit_s)}{name} ago" if unit_s else name
    return f"{int(seconds // (86_400 * 30))} months ago"


@register.filter
def score(best: Any) -> str:
    """The value of a best checkpoint: accuracies in per cent, all else as it is."""
    if best is None:
        return NOTHING
    series, value = best.series, best.value
    return f"{value:.4g}" if series.endswith("loss") else f"{value:.2f} %"


@register.filter
def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share * 100:.0f} %"


@register.filter
def exact_percent(share: float | str | None) -> str:
    """``0.9123`` -> ``91.23 %``."""
    return NOTHING if share in (None, "") else f"{float(share) * 100:.2f} %"


@register.filter
def free_bytes(device: Any) -> int:
    """Memory of a device that nobody uses."""
    return max(0, int(device.memory_bytes) - int(device.memory_used_bytes))
