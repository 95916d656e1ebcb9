"""The texts that job versions were registered from."""

from __future__ import annotations

import msgspec

from orchgit.model.job import JobSubmission
from orchgit.state.tables.base import TableReads

_SUBMISSION = msgspec.msgpack.Decoder(JobSubmission)


class JobSubmissionReads(TableReads):
    def get(self, namespace: str, job_id: str, version: int) -> JobSubmission | None:
        sql = """SELECT body FROM job_submissions
            WHERE namespace = ? AND job_id = ? AND version = ?"""
        row = self._connection.execute(sql, (namespace, job_id, version)).fetchone()
        return _SUBMISSION.decode(row[0]) if row else None


class JobSubmissionWrites(JobSubmissionReads):
    def put(self, submission: JobSubmission) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO job_submissions VALUES (?, ?, ?, ?)",
            (
                *(submission.namespace, submission.job_id, submission.version),
                msgspec.msgpack.encode(submission),
            ),
        )

    def delete(self, namespace: str, job_id: str, version: int) -> None:
        sql = "DELETE FROM job_submissions WHERE namespace = ? AND job_id = ? AND version = ?"
        self._connection.execute(sql, (namespace, job_id, version))

    def delete_of_job(self, namespace: str, job_id: str) -> None:
        sql = "DELETE FROM job_submissions WHERE namespace = ? AND job_id = ?"
        self._connection.execute(sql, (namespace, job_id))
