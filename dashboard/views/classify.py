"""Many images classified by the network of a run: starting it, and what came of it."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render

from dashboard.visitor import SignedIn
from jobs.access import run_for
from jobs.evaluations import classification_for


def classify(request: SignedIn, job_id: int) -> HttpResponse:
    return render(request, "classify/new.html", {"run": run_for(request.user, job_id)})


def classification(request: SignedIn, job_id: int) -> HttpResponse:
    return render(request, "classify/classification.html", {"job": classification_for(request.user, job_id)})
