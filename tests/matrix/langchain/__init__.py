"""The shapes of LangChain and LangGraph."""

from __future__ import annotations

from tests.matrix.langchain import (
    agents,
    application,
    classic,
    conversations,
    evidence,
    graphs,
    interrupts,
    kept,
    lcel,
    resumed,
    retrievers,
    team_graphs,
    teams,
    trouble,
    tutorials,
)

SHAPES = (
    *lcel.SHAPES,
    *classic.SHAPES,
    *retrievers.SHAPES,
    *agents.SHAPES,
    *conversations.SHAPES,
    *graphs.SHAPES,
    *interrupts.SHAPES,
    *resumed.SHAPES,
    *kept.SHAPES,
    *application.SHAPES,
    *teams.SHAPES,
    *team_graphs.SHAPES,
    *tutorials.SHAPES,
    *evidence.SHAPES,
    *trouble.SHAPES,
)
